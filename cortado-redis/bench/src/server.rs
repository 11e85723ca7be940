//! A server of a table's own.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A `redis-server` on a free port of the loopback interface, in a folder of its own. It ends with
/// the value.
pub struct RedisServer {
    pub port: u16,
    process: Child,
    _folder: TempDir,
}

impl RedisServer {
    pub fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a port is free").port();
        let folder = tempfile::tempdir().expect("a folder for the server");
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--loglevel", "warning"])
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed (Debian and Ubuntu: apt install redis-server)");
        let server = Self { port, process, _folder: folder };
        let begun = Instant::now();
        while !server.answers() {
            assert!(begun.elapsed() < Duration::from_secs(20), "the server does not start");
            sleep(Duration::from_millis(5));
        }
        server
    }

    fn answers(&self) -> bool {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port));
        let connection = client.and_then(|client| client.get_connection());
        connection.is_ok_and(|mut connection| redis::cmd("PING").exec(&mut connection).is_ok())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
