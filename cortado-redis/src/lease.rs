//! A lease: the right to load a key, for all processes that share the cache. It lives in the key
//! itself, so a write or a removal of the key by anybody breaks it, and a dead holder's ends.

use crate::error::Error;
use crate::link::Link;
use crate::script::Script;
use crate::slot::millis;
use crate::wire::Token;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;
use tokio::runtime::Handle;

pub(crate) struct Lease {
    pub link: Arc<Link>,
    pub raw: Vec<u8>,
    pub token: Token,
    /// Before it was asked for.
    begun: Instant,
    /// Whether it is to be given back.
    held: bool,
}

impl Lease {
    pub fn new(link: &Arc<Link>, raw: Vec<u8>, token: Token) -> Self {
        Self { link: Arc::clone(link), raw, token, begun: Instant::now(), held: true }
    }

    /// Renews it in time for two more attempts, as long as it stands. Never ends.
    pub async fn renew(&self, lease: Duration) -> Infallible {
        let text = millis(Some(lease));
        let mut pause = (lease / 3).saturating_sub(self.begun.elapsed());
        loop {
            tokio::time::sleep(pause).await;
            let renewed = self.link.eval(Script::Renew, &self.raw, &[&self.token, &text]).await;
            pause = match renewed {
                Ok(answer) if answer.reply.is_one() => lease / 3,
                // Broken, as the store will notice.
                Ok(_) => std::future::pending().await,
                Err(_) => lease / 10,
            };
        }
    }

    /// The value is stored, or is not to be: there is nothing to give back.
    pub fn settle(mut self) {
        self.held = false;
    }

    /// Gives it back without a value. Returns whether it stood.
    pub async fn release(mut self) -> Result<bool, Error> {
        let raw = std::mem::take(&mut self.raw);
        self.held = false;
        let released = self.link.eval(Script::Release, &raw, &[&self.token]).await;
        released.map(|answer| answer.reply.is_one())
    }
}

impl Drop for Lease {
    /// After a panic of the loader, or a request whose answer did not come: others need not wait
    /// for the lease's end.
    fn drop(&mut self) {
        if !std::mem::take(&mut self.held) {
            return;
        }
        let (link, raw) = (Arc::clone(&self.link), std::mem::take(&mut self.raw));
        let token = self.token;
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                let _ = link.eval(Script::Release, &raw, &[&token]).await;
            });
        }
    }
}
