//! What is under a key and is no value; what cannot be written.

use crate::support::*;
use cortado_redis::{Bytes, Codec, CodecError, Error, LoadError, Server, TieredCache};
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

#[test]
fn values_over_the_limit_are_neither_written_nor_read() {
    with_server(async |server| {
        let small = texts(server.port, |it| it.max_value_bytes(1_000));
        let large = texts(server.port, |it| it);
        let text = "v".repeat(2_000);
        let refused = small.insert("k", text.clone()).await;
        assert!(matches!(refused, Err(Error::TooLarge { bytes: 2_034 })), "{refused:?}");
        assert_eq!(get(&small, "k").await, None);
        large.insert("k", text.clone()).await.unwrap();
        let mut error = None;
        until("told", async || {
            error = small.get("k").await.err();
            error.is_some()
        })
        .await;
        assert!(matches!(error, Some(Error::TooLarge { bytes: 2_034 })), "{error:?}");
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
        assert!(matches!(cache.get("k").await, Err(Error::Disconnected(_))));
        assert!(matches!(cache.insert("k", "v".to_owned()).await, Err(Error::Disconnected(_))));
    });
}
