# The stand-ins' common body where there is Perl, which starts in a tenth of Python's time: see client.py.
$SIG{PIPE} = 'IGNORE';

sub take {
    my ($size) = @_;
    my $data = '';
    while (length $data < $size) {
        sysread($link, $data, $size - length $data, length $data) or exit 1;
    }
    return $data;
}

sub put {
    my ($to, $data) = @_;
    my $done = 0;
    while ($done < length $data) {
        my $sent = syswrite($to, $data, length($data) - $done, $done);
        exit 141 unless defined $sent;
        $done += $sent;
    }
}

# AF_UNIX and SOCK_STREAM are 1 on Linux; a module that knew their names would cost what is saved.
socket($link, 1, 1, 0) && connect($link, pack('S a108', 1, '/run/lab/control')) or exit 1;
my $request = join "\0", $0 =~ m{([^/]*)$}, @ARGV;
put($link, pack('N', length $request) . $request);
while (1) {
    my ($kind, $size) = unpack 'a N', take(5);
    my $data = take($size);
    exit ord $data if $kind eq 'x';
    put($kind eq '1' ? \*STDOUT : \*STDERR, $data);
}
