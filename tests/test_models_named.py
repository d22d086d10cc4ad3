"""Named models: chosen by name, at their own endpoint and prices, with no other endpoint's key."""

from __future__ import annotations

import pytest

from agent.config import Settings, with_model
from agent.config_sources import Origin
from agent.errors import UsageError
from agent.models.openai import NO_KEY, OpenAIModel
from agent.models.scripted import ScriptedServer
from agent.models.scripted_script import by_method
from agent.models.select import model_of
from agent.surfaces.open_options import OpenOptions
from agent.surfaces.opening import settings_of
from tests.settings_folder import SettingsFolder, folder

__all__ = ["folder"]

MODELS = """
base_url = "http://gpu1:30000/v1"
api_key = "key-of-gpu1"
price_input_usd_per_mtok = 9.0

[models.small]
context_tokens = 5000

[models.large]
model = "vendor/Large-1"
base_url = "https://api.example.net/v1"
api_key_env = "LARGE_KEY"
price_input = 2.0
price_output = 10.0
capabilities = ["tool_calls"]

[models.open]
base_url = "http://gpu2:30000/v1"
"""


async def key_sent(settings: Settings) -> str:
    async with OpenAIModel(settings).client() as client:
        return client.api_key


async def test_a_name_brings_endpoint_key_prices_and_habits(
    folder: SettingsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LARGE_KEY", "key-of-large")
    folder.load(MODELS)
    large = settings_of(OpenOptions(host="gpu1", model="large"))
    assert (large.model, large.base_url) == ("vendor/Large-1", "https://api.example.net/v1")
    assert (large.price_input_usd_per_mtok, large.price_output_usd_per_mtok) == (2.0, 10.0)
    assert not large.model_stream and await key_sent(large) == "key-of-large"
    assert model_of(large).name == "openai:vendor/Large-1"
    small = settings_of(OpenOptions(host="gpu1", model="small"))
    assert (small.model, small.base_url, small.context_tokens) == ("small", "http://gpu1:30000/v1", 5000)
    assert small.price_input_usd_per_mtok == 0.0 and await key_sent(small) == "key-of-gpu1"
    monkeypatch.setenv("LEADLINE_MODEL", "large")
    assert folder.load(MODELS).model == "vendor/Large-1"


async def test_a_key_goes_to_no_other_endpoint(
    folder: SettingsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LARGE_KEY", "key-of-large")
    settings = folder.load(MODELS, model="large")
    opened = with_model(settings, "open")
    assert opened.base_url == "http://gpu2:30000/v1" and await key_sent(opened) == NO_KEY
    assert opened.model_stream, "what the model before needed is no habit of this one"
    back = with_model(opened, "small")
    assert back.base_url == "http://gpu1:30000/v1" and await key_sent(back) == "key-of-gpu1"


async def test_a_turn_costs_what_the_entry_says(folder: SettingsFolder) -> None:
    server = ScriptedServer(by_method())
    url = await server.start()
    try:
        settings = folder.load(
            f'[models.cheap]\nmodel = "scripted"\nbase_url = "{url}"\n'
            "price_input = 3.0\nprice_output = 7.0\n",
            model="cheap",
        )
        turn = await OpenAIModel(settings).next_turn([{"role": "user", "content": "decode is slow"}], [])
    finally:
        await server.close()
    usage = turn.usage
    assert usage.input_tokens > 0 and usage.output_tokens > 0
    assert usage.cost_usd == pytest.approx((3.0 * usage.input_tokens + 7.0 * usage.output_tokens) / 1e6)


@pytest.mark.parametrize(
    ("text", "flags", "says"),
    [
        (MODELS, {"model": "large"}, r"\[models.large\] takes its key from LARGE_KEY, which is not set"),
        (MODELS, {"model": "open", "base_url": "http://x/v1"}, r"\[models.open\] has a base_url of its own"),
        ("[models.playbook]\n", {}, "is the built-in model"),
        ('[models.a]\napi_key = "x"\napi_key_env = "Y"\n', {}, "keep one"),
        ('[models.a]\napi_key_env = "sk-1234"\n', {}, "the key itself goes into api_key"),
        ("[models.a]\nprise_input = 1.0\n", {}, "no such setting; nearest: price_input"),
        ('[models.a]\ncapabilities = ["streaming"]\n', {"model": "a"}, "cannot call tools"),
        ('[models.a]\nbase_url = "http://x/v1"\n', {"model": "b"}, "the settings name a"),
    ],
)
def test_what_cannot_be_used_is_told(
    folder: SettingsFolder, text: str, flags: dict[str, str], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        model_of(folder.load(text, **flags))


def test_a_model_stands_in_one_file_and_none_is_a_projects(folder: SettingsFolder) -> None:
    with pytest.raises(UsageError, match=r"\[models.open\] stands in"):
        folder.load(MODELS, site='[models.open]\napi_key = "k"\n')
    with pytest.raises(UsageError, match=r"models.open.base_url is not for a project"):
        folder.load(project='[models.open]\nbase_url = "http://x/v1"\n')


def test_config_show_names_the_entry(folder: SettingsFolder) -> None:
    from agent.config import origin_of

    settings = folder.load(MODELS, model="open")
    found = origin_of(["base_url"], {"model": "open"}, settings.named_model)
    assert found == Origin("file", str(folder.person), 18)
    assert origin_of(["model"], {"model": "open"}, settings.named_model).text == "--model"
