# A lock of SET NX PX and of scripts that compare, then delete or prolong, by
# Perl's Redis; told what to do by lines on stdin:
#
#	acquire NAME TTL_MS  -> the token, or "busy"
#	extend TTL_MS        -> "extended", or "lost" when it was not ours any more
#	release              -> "released", or "lost" when it was not ours any more
#
# Usage: perl lock.pl HOST:PORT
use strict;
use warnings;
use Redis;

my $redis = Redis->new(server => $ARGV[0]);
my $delete = q{if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0};
my $extend = q{if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0};
my ($name, $token);

$| = 1;
while (my $line = <STDIN>) {
    my ($word, @args) = split ' ', $line;
    if ($word eq 'acquire') {
        my ($wanted, $ttl) = @args;
        my $try = sprintf '%d-%08x', $$, rand 2**32;
        if ($redis->set($wanted, $try, 'NX', 'PX', $ttl)) {
            ($name, $token) = ($wanted, $try);
            print "$token\n";
        } else {
            print "busy\n";
        }
    } elsif ($word eq 'extend') {
        my $extended = eval { $redis->eval($extend, 1, $name, $token, $args[0]) };
        print $extended ? "extended\n" : "lost\n";
    } else {
        # A lock of many holders is no string: GET fails, and it is not ours.
        my $deleted = eval { $redis->eval($delete, 1, $name, $token) };
        print $deleted ? "released\n" : "lost\n";
    }
}
