//! As much of HTTP/1.1 as the clients and the service need: GET on a connection that stays open.

use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// What a server answered.
#[derive(Debug, Default)]
pub struct Response {
    pub status: u16,
    pub terms: Terms,
    pub etag: Option<String>,
    pub body: Vec<u8>,
}

/// What `Cache-Control` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Zero if the response is not to be kept.
    pub max_age: Duration,
    /// How much longer it may be used while it is revalidated.
    pub while_revalidate: Duration,
    /// How much longer it may be used if that fails.
    pub if_error: Duration,
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

    /// Asks for a page, or whether the one with this tag is still the same.
    pub async fn get(&mut self, path: &str, known: Option<&str>) -> Result<Response> {
        let condition = known.map_or(String::new(), |tag| format!("If-None-Match: {tag}\r\n"));
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{condition}\r\n");
        self.stream.write_all(request.as_bytes()).await?;
        let line = self.line().await?;
        let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.split(' ').next());
        let status = status.and_then(|status| status.parse().ok());
        let status = status.with_context(|| format!("{path}: no answer: {line:?}"))?;

        let mut response = Response { status, ..Response::default() };
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => response.body = vec![0; value.parse()?],
                "cache-control" => response.terms = terms(value),
                "etag" => response.etag = Some(value.to_owned()),
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
pub async fn get(address: SocketAddr, path: &str, known: Option<&str>) -> Result<Response> {
    let mut client = Client::connect(address).await.context("no connection")?;
    client.get(path, known).await
}

fn terms(cache_control: &str) -> Terms {
    let mut terms = Terms::default();
    for directive in cache_control.split(',').map(str::trim) {
        let Some((name, seconds)) = directive.split_once('=') else { continue };
        let time = Duration::from_secs(seconds.parse().unwrap_or(0));
        match name {
            "max-age" => terms.max_age = time,
            "stale-while-revalidate" => terms.while_revalidate = time,
            "stale-if-error" => terms.if_error = time,
            _ => {}
        }
    }
    terms
}
