//! Between a client and a server: passes, delays, holds back, falls silent, drops, or resets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the proxy does with all of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// So long on the way to the client.
    Delay(Duration),
    /// What the server says waits for another mode, and comes in one piece then.
    Hold,
    /// Connections stay open, and nothing comes through in either direction: half-open. It comes
    /// in another mode.
    Silent,
    /// Connections are reset, new ones too.
    Reset,
}

pub struct Proxy {
    pub port: u16,
    mode: Arc<watch::Sender<Mode>>,
    /// How many connections there were, and how many of the first are dead.
    connections: Arc<(AtomicU64, AtomicU64)>,
}

impl Proxy {
    pub async fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Arc::new(watch::Sender::new(Mode::Pass));
        let modes = Arc::clone(&mode);
        let connections = Arc::<(AtomicU64, AtomicU64)>::default();
        let counts = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *modes.borrow() == Mode::Reset {
                    end_by_reset(&client);
                    continue;
                }
                let number = counts.0.fetch_add(1, SeqCst);
                let life = Life { modes: modes.subscribe(), number, counts: Arc::clone(&counts) };
                tokio::spawn(connect(client, server, life));
            }
        });
        Self { port, mode, connections }
    }

    /// The present connections stay open, and nothing will ever come through them: what is under
    /// way is lost. Later ones pass.
    pub fn drop_all(&self) {
        self.connections.1.store(self.connections.0.load(SeqCst), SeqCst);
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

/// A reset in place of an ordinary end, whenever the stream is dropped.
fn end_by_reset(stream: &TcpStream) {
    #[allow(deprecated, reason = "zero does not block")]
    let _ = stream.set_linger(Some(Duration::ZERO));
}

/// What a connection has to know.
#[derive(Clone)]
struct Life {
    modes: watch::Receiver<Mode>,
    number: u64,
    counts: Arc<(AtomicU64, AtomicU64)>,
}

impl Life {
    fn is_over(&self) -> bool {
        self.number < self.counts.1.load(SeqCst)
    }
}

async fn connect(client: TcpStream, server: u16, life: Life) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    end_by_reset(&client);
    let mut ends = life.modes.clone();
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    let there = tokio::spawn(pump(client_reads, server_writes, life.clone(), false));
    let back = tokio::spawn(pump(server_reads, client_writes, life, true));
    let (there_abort, back_abort) = (there.abort_handle(), back.abort_handle());
    tokio::select! {
        _ = there => {}
        _ = back => {}
        _ = ends.wait_for(|mode| *mode == Mode::Reset) => {}
    }
    there_abort.abort();
    back_abort.abort();
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut life: Life, is_back: bool) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let Ok(mut length @ 1..) = from.read(&mut buffer).await else { return };
        let passes = |mode: &Mode| *mode != Mode::Silent && !(is_back && *mode == Mode::Hold);
        if !passes(&life.modes.borrow()) {
            if life.modes.wait_for(passes).await.is_err() {
                return;
            }
            length += from.try_read(&mut buffer[length..]).unwrap_or(0);
        }
        let mode = *life.modes.borrow();
        if let (Mode::Delay(time), true) = (mode, is_back) {
            tokio::time::sleep(time).await;
        }
        if life.is_over() {
            std::future::pending::<()>().await;
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
