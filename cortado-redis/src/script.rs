//! What the server runs, each in one step for all others.
//!
//! Reads of scripts are tracked for the caller. It is told of its own writes, as of others', and a
//! key that was told of is forgotten.

/// What there is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    Read,
    Lease,
    Renew,
    Release,
    Store,
    Refresh,
    StoreOver,
    Write,
    WriteIfAbsent,
    Remove,
    Expire,
}

impl Script {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Read,
        Self::Lease,
        Self::Renew,
        Self::Release,
        Self::Store,
        Self::Refresh,
        Self::StoreOver,
        Self::Write,
        Self::WriteIfAbsent,
        Self::Remove,
        Self::Expire,
    ];

    pub const fn text(self) -> &'static str {
        match self {
            Self::Read => READ,
            Self::Lease => LEASE,
            Self::Renew => RENEW,
            Self::Release => RELEASE,
            Self::Store => STORE,
            Self::Refresh => REFRESH,
            Self::StoreOver => STORE_OVER,
            Self::Write => WRITE,
            Self::WriteIfAbsent => WRITE_IF_ABSENT,
            Self::Remove => REMOVE,
            Self::Expire => EXPIRE,
        }
    }
}

/// `{value, PTTL}`, `{false, -2}`, or `{length, -4}` if the value is longer than allowed.
/// Arguments: the most bytes.
const READ: &str = r"
local v = redis.call('GET', KEYS[1])
if not v then return {false, -2} end
if #v > tonumber(ARGV[1]) then return {#v, -4} end
return {v, redis.call('PTTL', KEYS[1])}";

/// The same, but where there is nothing, a lease: `{false, -3}`. Arguments: the most bytes, the
/// token, milliseconds, and `1` if "the origin has none" is nothing, too.
const LEASE: &str = r"
local v = redis.call('GET', KEYS[1])
if v and #v > tonumber(ARGV[1]) then return {#v, -4} end
if v and not (ARGV[4] == '1' and #v == 32 and string.find(v, '^N1%-[0-9a-f]+$')) then return {v, redis.call('PTTL', KEYS[1])} end
redis.call('SET', KEYS[1], 'L1'..ARGV[2], 'PX', ARGV[3])
return {false, -3}";

/// Prolongs the lease: 1, or 0 if it is broken. Arguments: the token, milliseconds.
const RENEW: &str = r"
if redis.call('GET', KEYS[1]) ~= 'L1'..ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1";

/// Ends the lease without a value. Arguments: the token.
const RELEASE: &str = r"
if redis.call('GET', KEYS[1]) ~= 'L1'..ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
return 1";

/// Stores the value if the lease stands: 1, or 0. Arguments: the token, bytes, milliseconds (0: for
/// ever).
const STORE: &str = r"
if redis.call('GET', KEYS[1]) ~= 'L1'..ARGV[1] then return 0 end
if ARGV[3] == '0' then redis.call('SET', KEYS[1], ARGV[2])
else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1";

/// Begins to refresh the value with the stamp: 1; or 2 if somebody else is at it, 0 if that value
/// is gone. Arguments: the stamp, milliseconds.
const REFRESH: &str = r"
local v = redis.call('GET', KEYS[1])
if not v or #v < 32 or string.sub(v, 4, 19) ~= ARGV[1] then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if tonumber(string.sub(v, 20, 32)) > now then return 2 end
local claimed = string.format('%013.0f', now + ARGV[2])
redis.call('SET', KEYS[1], string.sub(v, 1, 19)..claimed..string.sub(v, 33), 'KEEPTTL')
return 1";

/// Stores the value over the one with the stamp: 1, or 0 if that is gone. Arguments: the stamp,
/// bytes, milliseconds.
const STORE_OVER: &str = r"
local v = redis.call('GET', KEYS[1])
if not v or string.sub(v, 4, 19) ~= ARGV[1] then return 0 end
if ARGV[3] == '0' then redis.call('SET', KEYS[1], ARGV[2])
else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1";

/// Stores the value, whatever is there: 1. Arguments: bytes, milliseconds.
const WRITE: &str = r"
if ARGV[2] == '0' then redis.call('SET', KEYS[1], ARGV[1])
else redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return 1";

/// Stores the value if there is none, also in place of a lease: 1, or 0. Arguments: bytes,
/// milliseconds.
const WRITE_IF_ABSENT: &str = r"
local v = redis.call('GET', KEYS[1])
local none = v and #v == 32 and string.find(v, '^N1%-[0-9a-f]+$')
local lease = v and #v == 34 and string.find(v, '^L1[0-9a-f]+$')
if v and not none and not lease then return 0 end
if ARGV[2] == '0' then redis.call('SET', KEYS[1], ARGV[1])
else redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return 1";

/// Removes the key: 1 if it had a value, or 0.
const REMOVE: &str = r"
local was = redis.call('TYPE', KEYS[1]).ok
local v = was == 'string' and redis.call('GETRANGE', KEYS[1], 0, 34)
redis.call('UNLINK', KEYS[1])
if was == 'none' then return 0 end
if v and #v == 32 and string.find(v, '^N1%-[0-9a-f]+$') then return 0 end
if v and #v == 34 and string.find(v, '^L1[0-9a-f]+$') then return 0 end
return 1";

/// Changes the life of a value: 1, or 0 if there is none. Arguments: milliseconds (0: for ever).
const EXPIRE: &str = r"
local v = redis.call('GETRANGE', KEYS[1], 0, 31)
if #v < 32 or string.sub(v, 1, 2) ~= 'V1' then return 0 end
if ARGV[1] == '0' then redis.call('PERSIST', KEYS[1])
else redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return 1";
