//! The task that makes connections, one after the other, and looks whether the present one lives.

use super::connect::{Live, check_role};
use super::{Coherence, Link, State, locked};
use crate::error::Error;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A server that does not track is asked again so seldom.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);

impl Link {
    /// Starts the task on the caller's runtime, if it does not run: at first, and after the end of
    /// the runtime that it was on.
    pub(super) fn supervise(self: &Arc<Self>) {
        let mut supervisor = locked(&self.supervisor);
        if supervisor.as_ref().is_none_or(tokio::task::JoinHandle::is_finished) {
            self.state.send_replace(State::Connecting);
            let (generation, _) = self.trusted();
            let last = generation.max(locked(&self.ended).back().map_or(0, |(ended, _)| *ended));
            self.distrust(generation, Error::Disconnected("the runtime has ended".into()));
            *supervisor = Some(tokio::spawn(run(Arc::downgrade(self), last)));
        }
    }
}

async fn run(link: Weak<Link>, last: u64) {
    let mut pause = FIRST_PAUSE;
    // Without tracking, a new connection changes nothing for what was read by an old one.
    let mut generation = last;
    loop {
        let Some(this) = link.upgrade() else { return };
        if this.tracks() || generation == 0 {
            generation += 1;
        }
        match this.connect(generation).await {
            Ok(live) => {
                pause = FIRST_PAUSE;
                let settings = this.settings.clone();
                drop(this);
                let reason = watch(&link, &live, &settings).await;
                let Some(this) = link.upgrade() else { return };
                this.distrust(generation, reason);
                // A connection that was good is followed by another one at once, and operations
                // wait for it.
                this.state.send_replace(State::Connecting);
            }
            Err(error) => {
                let refused = matches!(error, Error::NoTracking(_) | Error::Address(_));
                this.state.send_replace(State::Down(error));
                drop(this);
                sleep(if refused { REFUSED_PAUSE } else { pause }).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Returns the reason when the connection does not live any more.
async fn watch(link: &Weak<Link>, live: &Live, settings: &super::LinkSettings) -> Error {
    let every = match settings.coherence {
        Coherence::Ttl(_) => settings.reply_within * 2,
        _ => settings.bound / 4,
    };
    // So that a proof comes, or the connection is given up, within the bound.
    let within = settings.reply_within.min(every * 2);
    loop {
        let trouble = timeout(every, live.trouble.notify.notified()).await.is_ok();
        if live.trouble.lost.load(Ordering::SeqCst) {
            return Error::Disconnected("the connection is lost".into());
        }
        if trouble {
            // Exchanges that fail one after the other ask for one look at a time.
            sleep(FIRST_PAUSE).await;
        }
        let Some(this) = link.upgrade() else {
            return Error::Disconnected("the cache is gone".into());
        };
        let sent = Instant::now();
        match timeout(within, check_role(live)).await {
            Ok(Ok(())) => this.proof(live.generation, sent),
            Ok(Err(error)) => return error,
            Err(_) => return Error::TimedOut,
        }
    }
}
