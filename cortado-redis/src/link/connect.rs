//! Making a connection, and exchanges by it.

use super::reply::{Reply, error_of, has_no_script};
use super::{Coherence, Link};
use crate::error::Error;
use crate::script::Script;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, PushInfo, PushKind, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Instant;
use tokio::sync::Notify;

/// The scripts' names on the server.
static HASHES: LazyLock<Vec<String>> = LazyLock::new(|| {
    Script::ALL
        .iter()
        .map(|script| redis::Script::new(script.text()).get_hash().to_owned())
        .collect()
});

/// Requests that the client writes at once: more than fit wait for their turn.
const PIPELINE: usize = 1024;

/// A connection.
pub struct Live {
    pub generation: u32,
    connection: MultiplexedConnection,
    /// Whether an answer came since it was last looked.
    pub answered: AtomicBool,
    /// Told when the connection is lost, or should be looked at.
    pub trouble: Arc<Trouble>,
}

#[derive(Default)]
pub struct Trouble {
    pub lost: AtomicBool,
    pub notify: Notify,
}

impl Live {
    /// An exchange has failed: the supervisor looks at once whether the connection lives.
    pub fn suspect(&self) {
        self.trouble.notify.notify_one();
    }

    pub async fn command(&self, words: &[&[u8]]) -> Result<Reply, Error> {
        let mut command = Cmd::new();
        words.iter().for_each(|word| _ = command.arg(*word));
        self.send(&command).await.map_err(|error| error_of(&error)).and_then(Reply::of)
    }

    pub async fn eval(
        &self,
        script: Script,
        key: &[u8],
        arguments: &[&[u8]],
    ) -> Result<Reply, Error> {
        let call = |name: &str, body: &str| {
            let mut call = redis::cmd(name);
            call.arg(body).arg(1).arg(key);
            arguments.iter().for_each(|argument| _ = call.arg(*argument));
            call
        };
        let reply = match self.send(&call("EVALSHA", &HASHES[script as usize])).await {
            Err(error) if has_no_script(&error) => self.send(&call("EVAL", script.text())).await,
            reply => reply,
        };
        reply.map_err(|error| error_of(&error)).and_then(Reply::of)
    }

    async fn send(&self, command: &Cmd) -> Result<Value, redis::RedisError> {
        let reply = command.query_async(&mut self.connection.clone()).await;
        if reply.as_ref().is_err_and(redis::RedisError::is_connection_dropped) {
            self.trouble.lost.store(true, Ordering::SeqCst);
        }
        reply
    }
}

impl Link {
    /// Makes a connection with tracking, checks it, and publishes it.
    pub(super) async fn connect(self: &Arc<Self>) -> Result<Arc<Live>, Error> {
        let (settings, generation) = (&self.settings, self.next_generation());
        let protocol = if self.tracks() { ProtocolVersion::RESP3 } else { ProtocolVersion::RESP2 };
        let client = settings.server.client(protocol, settings.connect_within).await?;
        let trouble = Arc::<Trouble>::default();
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(settings.connect_within))
            .set_response_timeout(Some(settings.reply_within))
            .set_pipeline_buffer_size(PIPELINE);
        if self.tracks() {
            config = config.set_push_sender(listener(Arc::downgrade(self), generation, &trouble));
        }
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        let connection = connection.map_err(|error| self.refusal(error_of(&error)))?;
        let live = Live { generation, connection, answered: AtomicBool::new(true), trouble };
        // Before tracking begins: a replica is not asked.
        let role = self.check_role(&live).await;
        let sent = Instant::now();
        // What does not know the command is asked: it may know nothing of tracking, too.
        if self.tracks() && matches!(role, Ok(()) | Err(Error::Server(_))) {
            self.begin_tracking(&live).await?;
        }
        role?;
        let live = Arc::new(live);
        self.publish(Arc::clone(&live), sent);
        // A loss before the publication has distrusted nothing.
        if live.trouble.lost.load(Ordering::SeqCst) {
            self.distrust(generation, &live.trouble);
        }
        Ok(live)
    }

    /// What a server says that does not know the protocol.
    fn refusal(&self, error: Error) -> Error {
        match error {
            Error::Server(text)
                if self.tracks()
                    && ["NOPROTO", "unknown command", "RESP3"]
                        .iter()
                        .any(|it| text.contains(it)) =>
            {
                Error::NoTracking(text)
            }
            other => other,
        }
    }

    async fn begin_tracking(&self, live: &Live) -> Result<(), Error> {
        let mut words: Vec<&[u8]> = vec![b"CLIENT", b"TRACKING", b"ON"];
        if self.settings.coherence == Coherence::Prefix {
            words.extend([b"BCAST".as_slice(), b"PREFIX", &self.settings.prefix]);
        }
        let refused = |error| match error {
            Error::Server(text) => Error::NoTracking(text),
            other => other,
        };
        live.command(&words).await.map_err(refused)?;
        // A server that tracks says so: some accept the command and do nothing.
        let state = live.command(&[b"CLIENT", b"TRACKINGINFO"]).await.map_err(refused)?;
        if names(&state, b"on") {
            return Ok(());
        }
        Err(Error::NoTracking("the command was accepted, but tracking is not on".into()))
    }
}

fn names(reply: &Reply, word: &[u8]) -> bool {
    match reply {
        Reply::Bytes(bytes) => bytes == word,
        Reply::List(parts) => parts.iter().any(|part| names(part, word)),
        Reply::Nil | Reply::Number(_) => false,
    }
}

/// Hears of changes, in the order of the wire: before any later reply is handed out.
fn listener(
    link: Weak<Link>,
    generation: u32,
    trouble: &Arc<Trouble>,
) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static {
    let trouble = Arc::clone(trouble);
    move |push: PushInfo| {
        let link = link.upgrade();
        match (push.kind, link) {
            (PushKind::Invalidate, Some(link)) => link.hear(push.data.first()),
            (PushKind::Disconnection, link) => {
                trouble.lost.store(true, Ordering::SeqCst);
                if let Some(link) = link {
                    link.distrust(generation, &trouble);
                }
                trouble.notify.notify_one();
            }
            _ => {}
        }
        Ok(())
    }
}

impl Link {
    /// Whether the server is a primary. A demoted one answers reads, and is told of nothing.
    pub(super) async fn check_role(&self, live: &Live) -> Result<(), Error> {
        let primary = Reply::Bytes(b"master".to_vec());
        match live.command(&[b"ROLE"]).await {
            Ok(Reply::List(parts)) if parts.first() == Some(&primary) => Ok(()),
            Ok(_) => Err(Error::Unavailable("the server is not a primary".into())),
            // A proxy without the command, or a user without the permission. What it stands for is
            // not known, and matters to tracking alone.
            Err(Error::Server(_)) if !self.tracks() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn hear(&self, keys: Option<&Value>) {
        let Some(sink) = self.sink() else { return };
        self.counts.pushes.fetch_add(1, Ordering::Relaxed);
        let Some(Value::Array(keys)) = keys else {
            // Null: the database was flushed.
            self.counts.flushes.fetch_add(1, Ordering::Relaxed);
            return sink.all_changed();
        };
        for key in keys {
            if let Value::BulkString(key) = key {
                self.counts.pushed_keys.fetch_add(1, Ordering::Relaxed);
                sink.changed(key);
            }
        }
    }
}
