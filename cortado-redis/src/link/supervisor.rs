//! The task that makes connections, one after the other, and looks whether the present one lives.

use super::connect::Live;
use super::{Coherence, Link, LinkSettings, State, locked};
use crate::error::Error;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A server that does not track is asked again so seldom.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);
/// A connection that has lived so long is followed by the next one without a pause.
const SETTLED: Duration = Duration::from_secs(5);
/// A connection without answers is given up after so long at the least: a server that stands still
/// for a moment, as when it forks, costs nobody its copies.
const PATIENCE: Duration = Duration::from_secs(2);
/// Without tracking, a connection is looked at no more often.
const SELDOM: Duration = Duration::from_millis(250);
const LOOK_PAUSE: Duration = Duration::from_millis(20);

impl Link {
    /// Starts the task on the caller's runtime, if it does not run: at first, and after the end of
    /// the runtime that it was on.
    pub(super) fn supervise(self: &Arc<Self>) {
        let mut supervisor = locked(&self.supervisor);
        if supervisor.as_ref().is_none_or(tokio::task::JoinHandle::is_finished) {
            let present = match &*self.state.borrow() {
                State::Up(live) => Some(Arc::clone(live)),
                _ => None,
            };
            if let Some(live) = present {
                self.distrust(live.generation, &live.trouble);
            }
            self.state.send_replace(State::Connecting);
            *supervisor = Some(tokio::spawn(run(Arc::downgrade(self))));
        }
    }
}

async fn run(link: Weak<Link>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let Some(this) = link.upgrade() else { return };
        match this.connect().await {
            Ok(live) => {
                let (settings, begun) = (this.settings.clone(), Instant::now());
                drop(this);
                watch(&link, &live, &settings).await;
                let Some(this) = link.upgrade() else { return };
                this.distrust(live.generation, &live.trouble);
                this.state.send_replace(State::Connecting);
                if begun.elapsed() >= SETTLED {
                    pause = FIRST_PAUSE;
                    continue;
                }
            }
            Err(error) => {
                let refused = matches!(error, Error::NoTracking(_) | Error::Address(_));
                this.state.send_replace(State::Down(match error {
                    Error::Server(text) => Error::Unavailable(text),
                    error => error,
                }));
                drop(this);
                if refused {
                    pause = REFUSED_PAUSE;
                }
            }
        }
        // Many processes lose a server at once. They come back one after the other.
        sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Returns when the connection does not live any more.
async fn watch(link: &Weak<Link>, live: &Live, settings: &LinkSettings) {
    let every = match settings.coherence {
        Coherence::Ttl(_) => (settings.reply_within * 2).max(SELDOM),
        // So that an answer comes within the bound.
        _ => settings.bound / 4,
    };
    let patience = PATIENCE.max(settings.reply_within * 2);
    let is_lost = || live.trouble.lost.load(Ordering::SeqCst);
    // When the first look without an answer began; none after an answer.
    let mut unanswered = None;
    loop {
        let trouble =
            unanswered.is_some() || timeout(every, live.trouble.notify.notified()).await.is_ok();
        if trouble && !is_lost() {
            // Exchanges that fail one after the other ask for one look at a time.
            sleep(LOOK_PAUSE).await;
        }
        if is_lost() {
            return;
        }
        let Some(this) = link.upgrade() else { return };
        let sent = Instant::now();
        let is_answered = match this.check_role(live).await {
            Ok(()) => {
                this.proof(live, sent);
                true
            }
            // Trust ends by itself. A late answer brings it back: all changes are told before it.
            Err(Error::TimedOut) => false,
            Err(_) => return,
        };
        let others = live.answered.swap(false, Ordering::Relaxed);
        // What else was answered since the last look may be older than this one.
        unanswered = (!is_answered).then(|| unanswered.filter(|_| !others).unwrap_or(sent));
        if unanswered.is_some_and(|first: Instant| first.elapsed() >= patience) {
            return;
        }
    }
}
