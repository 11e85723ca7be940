//! As much of HTTP/1.1 as the clients and the service need: GET on a connection that stays open.

use anyhow::{Context, Result, ensure};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// What a server answered with status 200.
#[derive(Debug, Default)]
pub struct Response {
    /// From `Cache-Control`. Zero if the response is not to be kept.
    pub max_age: Duration,
    pub body: Vec<u8>,
}

/// A connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    pub async fn get(&mut self, path: &str) -> Result<Response> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.stream.write_all(request.as_bytes()).await?;
        let status = self.line().await?;
        ensure!(status.starts_with("HTTP/1.1 200 "), "{path}: {status}");

        let mut response = Response::default();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => response.body = vec![0; value.parse()?],
                "cache-control" => response.max_age = max_age(value),
                _ => {}
            }
        }
        self.stream.read_exact(&mut response.body).await?;
        Ok(response)
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        line.truncate(line.trim_end().len());
        Ok(line)
    }
}

/// One request on a connection of its own.
pub async fn get(address: SocketAddr, path: &str) -> Result<Response> {
    let mut client = Client::connect(address).await.context("no connection")?;
    client.get(path).await
}

fn max_age(cache_control: &str) -> Duration {
    let seconds = cache_control
        .split(',')
        .filter_map(|directive| directive.trim().strip_prefix("max-age="))
        .find_map(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0))
}
