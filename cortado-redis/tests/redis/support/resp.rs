//! A client that shows everything that a server sends, in its order.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A frame, as text: `+OK`, `-error`, `:1`, `"bytes"`, `nil`, `[a, b]`, `push[invalidate, [k]]`.
pub struct Resp {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

/// So long nothing more comes, as a rule.
const QUIET: Duration = Duration::from_millis(100);

impl Resp {
    pub fn connect(port: u16) -> Self {
        let mut client = Self::old(port);
        assert!(client.ask("HELLO 3").starts_with("map["));
        client
    }

    /// By the old protocol.
    pub fn old(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Self { stream, reader }
    }

    /// One that tracks, with these options.
    pub fn tracking(port: u16, options: &str) -> Self {
        let mut client = Self::connect(port);
        assert_eq!(client.ask(&format!("CLIENT TRACKING ON {options}")), "+OK");
        client
    }

    /// Sends commands at once; words are separated by spaces, and in them `_` stands for
    /// one, and `~` for `_`.
    pub fn send(&mut self, commands: &[&str]) {
        let mut out = Vec::new();
        for command in commands {
            let words: Vec<String> = command
                .split_whitespace()
                .map(|word| word.replace('_', " ").replace('~', "_"))
                .collect();
            out.extend(format!("*{}\r\n", words.len()).bytes());
            for word in words {
                out.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
            }
        }
        self.stream.write_all(&out).unwrap();
    }

    /// The next frame.
    pub fn next(&mut self) -> String {
        self.stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        self.frame().expect("a frame within 10 s")
    }

    /// Sends one command, and returns the next frame.
    pub fn ask(&mut self, command: &str) -> String {
        self.send(&[command]);
        self.next()
    }

    /// All frames that come until it is quiet.
    pub fn rest(&mut self) -> Vec<String> {
        let mut frames = Vec::new();
        self.stream.set_read_timeout(Some(QUIET)).unwrap();
        while let Some(frame) = self.frame() {
            frames.push(frame);
        }
        frames
    }

    /// Whether the server has ended the connection, and said nothing before.
    pub fn has_ended(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        matches!(self.reader.read(&mut [0]), Ok(0))
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(1..) => Some(line.trim_end().to_owned()),
            _ => None,
        }
    }

    fn frame(&mut self) -> Option<String> {
        let line = self.line()?;
        let (kind, rest) = line.split_at(1);
        let many = |this: &mut Self, each: usize, name: &str| {
            let count = rest.parse::<i64>().unwrap();
            let Ok(count) = usize::try_from(count) else { return "nil".to_owned() };
            let parts: Vec<String> = (0..count * each).map(|_| this.frame().unwrap()).collect();
            format!("{name}[{}]", parts.join(", "))
        };
        Some(match kind {
            "$" => match rest.parse::<i64>().unwrap() {
                -1 => "nil".to_owned(),
                length => {
                    let mut bytes = vec![0; usize::try_from(length).unwrap() + 2];
                    self.reader.read_exact(&mut bytes).unwrap();
                    bytes.truncate(bytes.len() - 2);
                    String::from_utf8_lossy(&bytes).into_owned()
                }
            },
            "=" => {
                let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.reader.read_exact(&mut bytes).unwrap();
                String::from_utf8_lossy(&bytes).into_owned()
            }
            "_" => "nil".to_owned(),
            "*" => many(self, 1, ""),
            "~" => many(self, 1, "set"),
            ">" => many(self, 1, "push"),
            "%" => many(self, 2, "map"),
            _ => line,
        })
    }
}
