//! What is under a key and is no value; what cannot be written.

use crate::support::*;
use cortado_redis::{
    Bytes, Codec, CodecError, Coherence, Error, LoadError, RedisKey, Server, TieredCache,
};
use redis::Commands;

#[test]
fn other_things_under_a_key_are_errors_with_names() {
    with_server(async |server| {
        let (cache, mut other) = (texts(server.port, |it| it), server.raw());
        other.rpush::<_, _, ()>("t:list", 1).unwrap();
        other.set::<_, _, ()>("t:foreign", "hello").unwrap();
        other.set::<_, _, ()>("t:empty", "").unwrap();
        other.set::<_, _, ()>("t:newer", b"V2p0000").unwrap();
        let header = |codec: char| format!("V1{codec}00000000000000010000000000000");
        other.set::<_, _, ()>("t:codec", header('j') + "\"json\"").unwrap();
        other.set::<_, _, ()>("t:short", header('p') + "\u{7f}abc").unwrap();
        other.set::<_, _, ()>("t:long", header('p') + "\u{1}ab").unwrap();
        // Names that begin as this crate's bytes do.
        for name in [
            "Nina",
            "Lisa",
            "L1",
            "L100",
            "N1-x",
            "V1p",
            "Vera",
            "L1D41D8CD98F00B204E9800998ECF8427E",
            "N1-D41D8CD98F00B204E9800998ECF84",
        ] {
            other.set::<_, _, ()>(format!("t:{name}"), name).unwrap();
            assert!(matches!(cache.get(name).await.unwrap_err(), Error::Foreign), "{name}");
            let load = cache.load(name, async { Ok::<_, String>("v".to_owned()) }).await;
            assert!(matches!(load, Err(LoadError::Redis(Error::Foreign))), "{name}: {load:?}");
            assert!(!cache.insert_if_absent(name, "v".to_owned()).await.unwrap(), "{name}");
            assert!(!cache.expire(name, ms(1_000)).await.unwrap(), "{name}");
            assert_eq!(other.get::<_, String>(format!("t:{name}")).unwrap(), name);
            assert!(cache.remove(name).await.unwrap(), "{name}");
        }
        let error = async |key: &str| cache.get(key).await.unwrap_err();
        assert!(matches!(error("list").await, Error::WrongType));
        assert!(matches!(error("foreign").await, Error::Foreign));
        assert!(matches!(error("empty").await, Error::Foreign));
        assert!(matches!(error("newer").await, Error::UnknownFormat { version: 2, codec: b'p' }));
        assert!(matches!(error("codec").await, Error::UnknownFormat { version: 1, codec: b'j' }));
        assert!(matches!(error("short").await, Error::Codec(_)));
        assert!(matches!(error("long").await, Error::Codec(_)));
        for key in ["list", "foreign", "newer", "codec", "short"] {
            let load = cache.load(key, async { Ok::<_, String>("v".to_owned()) }).await;
            assert!(matches!(load, Err(LoadError::Redis(_))), "{key}: {load:?}");
            // A write mends it; of another type, a removal.
            let key = key.to_owned();
            if key == "list" {
                assert!(cache.remove(&key).await.unwrap());
            }
            cache.insert(&key, "v".to_owned()).await.unwrap();
            assert_eq!(get(&cache, &key).await.as_deref(), Some("v"));
        }
        assert!(matches!(cache.state(), cortado_redis::LinkState::Up), "and nothing else fails");
        assert_eq!(cache.stats().losses, 0);
    });
}

/// What the documentation says is enough.
#[test]
fn the_permissions_that_are_needed() {
    with_server(async |server| {
        let permissions = "+eval +evalsha +get +getrange +type +pttl +set +del +unlink +pexpire \
                           +persist +time +touch +scan +role +client|tracking \
                           +client|trackinginfo";
        let mut set = redis::cmd("ACL");
        set.arg("SETUSER").arg("app").arg("on").arg(">secret").arg("~t:*");
        permissions.split_whitespace().for_each(|permission| _ = set.arg(permission));
        set.exec(&mut server.raw()).unwrap();
        let address = format!("redis://app:secret@127.0.0.1:{}", server.port);
        let at = || TieredCache::<String, String>::builder(Server::at(&address).unwrap(), "t");
        for set in [|it: TextsBuilder| it, |it: TextsBuilder| it.coherence(Coherence::Prefix)] {
            let cache = set(at()).refresh_ahead(ms(3_600_000)).build();
            let text = || cortado_redis::Loaded::with_ttl("v".to_owned(), ms(60_000));
            cache.load("a", async move { Ok::<_, String>(text()) }).await.unwrap();
            kept(&cache, "a", "v").await;
            cache.load("a", async move { Ok::<_, String>(text()) }).await.unwrap();
            until("refreshed", async || cache.stats().refreshes == 1).await;
            assert!(cache.load("f", async { Err::<String, _>("no") }).await.is_err());
            cache.insert("b", text()).await.unwrap();
            assert!(!cache.insert_if_absent("b", text()).await.unwrap());
            assert!(cache.expire("b", ms(1_000)).await.unwrap());
            assert!(cache.persist("b").await.unwrap());
            assert!(cache.touch("b").await.unwrap());
            assert!(cache.remove("b").await.unwrap());
            cache.clear().await.unwrap();
            assert_eq!(get(&cache, "a").await, None);
            assert_eq!(cache.stats().failures, 0);
        }
        // `ROLE` is for tracking alone.
        redis::cmd("ACL").arg("SETUSER").arg("app").arg("-role").exec(&mut server.raw()).unwrap();
        let error = at().build().get("k").await.unwrap_err();
        assert!(matches!(&error, Error::Unavailable(text) if text.contains("role")), "{error:?}");
        let by_time = at().coherence(Coherence::Ttl(ms(100))).build();
        assert_eq!(get(&by_time, "k").await, None);
    });
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Fragile(String);

impl RedisKey for Fragile {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.0.bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        assert_ne!(bytes, b"fatal", "as planned");
        Some(Self(String::from_utf8(bytes.to_vec()).ok()?))
    }
}

#[test]
fn a_key_that_panics_ends_no_connection() {
    with_server(async |server| {
        let cache = TieredCache::<Fragile, String>::builder(at(server.port), "t")
            .coherence(Coherence::Prefix)
            .build();
        let key = Fragile("k".to_owned());
        cache.insert(&key, "v".to_owned()).await.unwrap();
        until("kept", async || {
            cache.get(&key).await.unwrap();
            cache.local().get(&key).is_some()
        })
        .await;
        server.raw().set::<_, _, ()>("t:fatal", "v").unwrap();
        until("dropped", async || cache.local().get(&key).is_none()).await;
        assert_eq!(cache.get(&key).await.unwrap().as_deref(), Some("v"));
        assert_eq!(cache.stats().losses, 0);
    });
}

#[test]
fn small_limits_are_for_values_alone() {
    with_server(async |server| {
        let small = || texts(server.port, |it| it.max_value_bytes(4));
        let (one, two) = (small(), small());
        let load = async |cache: &Texts| {
            let loader = async {
                tokio::time::sleep(ms(30)).await;
                Ok::<_, String>("abc".to_owned())
            };
            cache.load("k", loader).await.unwrap()
        };
        let (first, second) = tokio::join!(load(&one), load(&two));
        assert_eq!((first.as_str(), second.as_str()), ("abc", "abc"));
        let absent = one.optionally_load("n", async { Ok::<_, String>(None) });
        assert_eq!(absent.await.unwrap(), None);
        assert!(matches!(
            one.insert("k", "abcd".to_owned()).await,
            Err(Error::TooLarge { bytes: 5 })
        ));
    });
}

#[test]
fn values_over_the_limit_are_neither_written_nor_read() {
    with_server(async |server| {
        let small = texts(server.port, |it| it.max_value_bytes(1_000));
        let large = texts(server.port, |it| it);
        let text = "v".repeat(2_000);
        let refused = small.insert("k", text.clone()).await;
        assert!(matches!(refused, Err(Error::TooLarge { bytes: 2_002 })), "{refused:?}");
        assert_eq!(get(&small, "k").await, None);
        large.insert("k", text.clone()).await.unwrap();
        let mut error = None;
        until("told", async || {
            error = small.get("k").await.err();
            error.is_some()
        })
        .await;
        assert!(matches!(error, Some(Error::TooLarge { bytes: 2_002 })), "{error:?}");
        let load = small.load("other", async move { Ok::<_, String>(text) }).await;
        assert!(matches!(load, Err(LoadError::Redis(Error::TooLarge { .. }))));
        assert!(!server.raw().exists::<_, bool>("t:other").unwrap(), "its lease is given back");
    });
}

struct Picky;

impl Codec<String> for Picky {
    fn id(&self) -> u8 {
        b'P'
    }

    fn encode(&self, value: &String, out: &mut Vec<u8>) -> Result<(), CodecError> {
        if value.is_empty() {
            return Err("empty".into());
        }
        Bytes.encode(&value.clone().into_bytes(), out)
    }

    fn decode(&self, bytes: &[u8]) -> Result<String, CodecError> {
        Ok(String::from_utf8(bytes.to_vec())?)
    }
}

#[test]
fn a_codec_may_refuse() {
    with_server(async |server| {
        let cache =
            TieredCache::<String, String>::builder(at(server.port), "t").build_with_codec(Picky);
        assert!(matches!(cache.insert("k", "".to_owned()).await, Err(Error::Codec(_))));
        cache.insert("k", "v".to_owned()).await.unwrap();
        assert_eq!(get(&cache, "k").await.as_deref(), Some("v"));
        let postcard = texts(server.port, |it| it);
        let other = postcard.get("k").await;
        assert!(
            matches!(other, Err(Error::UnknownFormat { version: 1, codec: b'P' })),
            "{other:?}"
        );
    });
}

#[test]
fn bytes_are_stored_as_they_are() {
    with_server(async |server| {
        type Blobs = TieredCache<Vec<u8>, Vec<u8>>;
        let cache: Blobs = TieredCache::builder(at(server.port), "t").build_with_codec(Bytes);
        let other: Blobs = TieredCache::builder(at(server.port), "t").build_with_codec(Bytes);
        let all: Vec<u8> = (0..=255).collect();
        cache.insert(&all, all.clone()).await.unwrap();
        assert_eq!(other.get(&all).await.unwrap(), Some(all.clone()));
        other.remove(&all).await.unwrap();
        until("told", async || cache.get(&all).await.unwrap().is_none()).await;
    });
}

#[test]
fn addresses_that_are_none() {
    for address in ["", "127.0.0.1", "http://127.0.0.1", "redis://", "redis://host:port"] {
        assert!(matches!(Server::at(address), Err(Error::Address(_))), "{address}");
    }
    assert!(Server::by_sentinels([], "primary", "redis://127.0.0.1").is_err());
}

#[test]
fn nobody_answers() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let cache = texts(1, |it| it.connect_within(ms(200)));
        assert!(matches!(cache.get("k").await, Err(Error::Unavailable(_))));
        assert!(matches!(cache.insert("k", "v".to_owned()).await, Err(Error::Unavailable(_))));
    });
}
