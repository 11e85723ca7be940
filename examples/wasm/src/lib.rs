//! A cache of tokens for a page or a Node program: `.ci/wasm` builds it and runs `index.mjs`.

use cortado::{Cache, Loaded, RemovalCause};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use wasm_bindgen::prelude::wasm_bindgen;

/// Tokens by service, each for as long as its issuer said.
#[wasm_bindgen]
pub struct Tokens {
    tokens: Cache<String, String>,
    timed_out: Arc<AtomicU32>,
    issued: AtomicU32,
}

#[wasm_bindgen]
impl Tokens {
    /// Makes a cache of so many tokens.
    #[wasm_bindgen(constructor)]
    pub fn new(capacity: u32) -> Self {
        let timed_out = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&timed_out);
        let tokens = Cache::builder()
            .max_capacity(capacity.into())
            // There are no threads: an operation, or a call of `tick`, runs the listener.
            .removal_listener(move |removed| {
                counted.fetch_add(u32::from(removed.cause() == RemovalCause::Expired), Relaxed);
            })
            .build();
        Self { tokens, timed_out, issued: AtomicU32::new(0) }
    }

    /// The service's token. If there is none, one is issued, with this lifetime.
    pub fn get(&self, service: String, lifetime_ms: u32) -> String {
        self.tokens.load(service, || {
            let number = self.issued.fetch_add(1, Relaxed) + 1;
            let lifetime = Duration::from_millis(lifetime_ms.into());
            Loaded::with_ttl(format!("token {number}"), lifetime)
        })
    }

    /// Removes what has timed out. A page calls this from `setInterval`.
    pub fn tick(&self) {
        self.tokens.run_pending_tasks();
    }

    /// How many tokens have timed out.
    pub fn timed_out(&self) -> u32 {
        self.timed_out.load(Relaxed)
    }
}
