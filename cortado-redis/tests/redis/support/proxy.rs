//! Between a client and a server: passes, delays, falls silent, or resets.

use std::sync::Arc;
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
    /// Connections stay open, and nothing comes through in either direction: half-open.
    Silent,
    /// Connections are reset, new ones too.
    Reset,
}

pub struct Proxy {
    pub port: u16,
    mode: Arc<watch::Sender<Mode>>,
}

impl Proxy {
    pub async fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Arc::new(watch::Sender::new(Mode::Pass));
        let modes = Arc::clone(&mode);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *modes.borrow() == Mode::Reset {
                    end_by_reset(&client);
                    continue;
                }
                tokio::spawn(connect(client, server, modes.subscribe()));
            }
        });
        Self { port, mode }
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

async fn connect(client: TcpStream, server: u16, modes: watch::Receiver<Mode>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    end_by_reset(&client);
    let mut ends = modes.clone();
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    let there = tokio::spawn(pump(client_reads, server_writes, modes.clone(), false));
    let back = tokio::spawn(pump(server_reads, client_writes, modes, true));
    let (there_abort, back_abort) = (there.abort_handle(), back.abort_handle());
    tokio::select! {
        _ = there => {}
        _ = back => {}
        _ = ends.wait_for(|mode| *mode == Mode::Reset) => {}
    }
    there_abort.abort();
    back_abort.abort();
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut modes: watch::Receiver<Mode>,
    delayed: bool,
) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let Ok(length @ 1..) = from.read(&mut buffer).await else { return };
        if modes.wait_for(|mode| *mode != Mode::Silent).await.is_err() {
            return;
        }
        let mode = *modes.borrow();
        if let (Mode::Delay(time), true) = (mode, delayed) {
            tokio::time::sleep(time).await;
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
