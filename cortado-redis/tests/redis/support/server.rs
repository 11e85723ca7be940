//! A server of a test's own.

use std::io::{Write, stderr};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A `redis-server` on a free port of the loopback interface, in a folder of its own. It ends with
/// the value.
pub struct RedisServer {
    pub port: u16,
    process: Child,
    folder: TempDir,
    options: Vec<String>,
}

const SKIPPED: &[u8] = b"skipped: all tests that need a server, since there is no redis-server \
here (Debian and Ubuntu: apt install redis-server)\n";

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl RedisServer {
    /// `None`, with a word about it, if there is no `redis-server` here. Where `CI` is set that is
    /// an error.
    pub fn start() -> Option<Self> {
        Self::with(&[])
    }

    pub fn with(options: &[&str]) -> Option<Self> {
        Self::on(free_port(), options)
    }

    pub fn on(port: u16, options: &[&str]) -> Option<Self> {
        if Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_err() {
            assert!(std::env::var_os("CI").is_none(), "CI has no redis-server");
            static SAID: Once = Once::new();
            // Not by a macro, whose text a test that passes keeps to itself.
            SAID.call_once(|| stderr().write_all(SKIPPED).unwrap());
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let process = run(port, &folder, &options);
        let server = Self { port, process, folder, options };
        server.wait();
        Some(server)
    }

    /// A Sentinel that watches the primary at this port under the name `primary`.
    pub fn sentinel(primary: u16) -> Option<Self> {
        let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
        let settings = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor primary 127.0.0.1 {primary} 1\n\
             sentinel down-after-milliseconds primary 1000\n"
        );
        let file = folder.path().join("sentinel.conf");
        std::fs::write(&file, settings).unwrap();
        let mut command = Command::new("redis-server");
        command.arg(&file).arg("--sentinel").stdout(Stdio::null());
        let process = command.spawn().ok()?;
        let server = Self { port, process, folder, options: Vec::new() };
        server.wait();
        Some(server)
    }

    fn wait(&self) -> redis::Connection {
        let begun = Instant::now();
        loop {
            if let Some(connection) = self.try_raw() {
                return connection;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "the server does not answer");
            sleep(Duration::from_millis(5));
        }
    }

    fn try_raw(&self) -> Option<redis::Connection> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap();
        let mut connection = client.get_connection().ok()?;
        redis::cmd("PING").exec(&mut connection).ok()?;
        Some(connection)
    }

    /// A client that has nothing to do with caches.
    pub fn raw(&self) -> redis::Connection {
        self.wait()
    }

    /// Ends the server without a goodbye, and starts one with an empty database in its place.
    pub fn restart(&mut self) {
        self.kill();
        self.process = run(self.port, &self.folder, &self.options);
        self.wait();
    }

    /// By its name: `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        let process = self.process.id().to_string();
        let sent = Command::new("kill").arg(format!("-{name}")).arg(process).status();
        assert!(sent.unwrap().success());
    }

    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(port: u16, folder: &TempDir, options: &[String]) -> Child {
    Command::new("redis-server")
        .args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ])
        .args(["--enable-debug-command", "local", "--loglevel", "warning"])
        .arg("--dir")
        .arg(folder.path())
        .args(options)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}
