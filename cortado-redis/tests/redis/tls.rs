//! A server behind TLS.

use crate::support::*;
use cortado_redis::{Error, Server, TieredCache};

fn at_tls(port: &str) -> TieredCache<String, String> {
    let server = Server::at(&format!("rediss://localhost:{port}")).unwrap();
    TieredCache::builder(server, "t").build()
}

/// In a process of its own, to which the environment names the certificate of the test's authority.
#[test]
fn a_certificate_is_checked() {
    const TEST: &str = "tls::a_certificate_is_checked";
    if is_child() {
        return with_runtime(async {
            let cache = at_tls(&argument());
            cache.insert("k", "v".to_owned()).await.unwrap();
            assert_eq!(get(&cache, "k").await.as_deref(), Some("v"));
            kept(&cache, "k", "v").await;
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let certificate = file("certificate.pem", made.cert.pem());
    let key = file("key.pem", made.signing_key.serialize_pem());
    let port = free_port().to_string();
    let options = ["--tls-port", &port, "--tls-cert-file", &certificate, "--tls-key-file", &key];
    let options = [&options[..], &["--tls-auth-clients", "no"]].concat();
    let Some(_server) = RedisServer::with(&options) else { return };
    again_with(TEST, &port, &[("SSL_CERT_FILE", &certificate)]).succeeds();
    // This process does not know the authority.
    with_runtime(async {
        let error = at_tls(&port).get("k").await.unwrap_err();
        let is_named = error.to_string().contains("certificate");
        assert!(matches!(error, Error::Unavailable(_)) && is_named, "{error:?}");
    });
}
