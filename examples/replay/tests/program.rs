//! The replay example as a program, and a trace for it.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub struct Run {
    pub code: Option<i32>,
    pub out: String,
    pub error: String,
}

pub fn run_with_input(arguments: &[&str], input: &[u8]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_replay"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A run that refuses its arguments does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), out: text(output.stdout), error: text(output.stderr) }
}

/// Replays `input` from standard input, which must succeed, without a chart.
pub fn replay(arguments: &[&str], input: &[u8]) -> Run {
    let run = run_with_input(&[&["-", "--no-svg"], arguments].concat(), input);
    assert_eq!(run.code, Some(0), "{arguments:?}: {}", run.error);
    run
}

impl Run {
    /// What the table says of `name`.
    pub fn row(&self, name: &str) -> &str {
        let cells = self.out.lines().map(|line| line.trim_matches('│').split('┆').map(str::trim));
        let value = cells
            .into_iter()
            .find_map(|mut cells| if cells.next() == Some(name) { cells.next() } else { None });
        value.unwrap_or_else(|| panic!("no row `{name}` in {}", self.out))
    }
}

pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let folder = format!("cortado-replay-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Eleven look-ups of three keys, and what they find if each lifetime runs from the insertion.
pub const LOOKUPS: [(&str, &str); 11] = [
    ("a,1000,10,0", "first"),
    ("a,1000,10,500", "hit"),
    ("a,1000,10,999", "hit"),
    ("a,1000,10,1000", "expired, at its deadline"),
    ("b,,20,1000", "first, lives for ever"),
    ("a,1000,10,1999", "hit"),
    ("a,1000,10,2000", "expired, at its deadline"),
    ("b,,20,5000", "hit"),
    ("z,0,5,5000", "first, is not stored"),
    ("z,0,5,5001", "expired, not being stored"),
    ("b,,20,100000", "hit"),
];

pub fn trace() -> String {
    let lines = LOOKUPS.map(|(line, _)| line);
    format!("# key,ttl_ms,weight,timestamp_ms\n{}\n", lines.join("\n"))
}
