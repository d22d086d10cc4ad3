"""Follow Python source without running it: values are known, or unknown with what would decide them.

Nothing of the source is executed: statements are walked, third-party modules are symbols, and the few pure
functions of the standard library that may be called natively are listed in ``library``. Where a condition is
unknown both ways are followed and joined, so a value that is called known holds on every way left open.
"""
