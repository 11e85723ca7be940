//! Other processes that run this program.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child as Process, ChildStdout, Command, Stdio};

/// The first argument of such a process.
pub const CHILD: &str = "child";

/// Another process of this program. It ends with the value.
pub struct Child {
    process: Process,
    lines: BufReader<ChildStdout>,
}

impl Child {
    pub fn start(arguments: &[&str]) -> Self {
        let program = std::env::current_exe().expect("this program has a file");
        let mut process = Command::new(program)
            .arg(CHILD)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts again");
        let lines = BufReader::new(process.stdout.take().expect("it is piped"));
        Self { process, lines }
    }

    /// The next line that the process prints.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).expect("the pipe is open");
        assert!(read > 0, "the other process has ended");
        line.trim_end().to_owned()
    }

    pub fn say(&mut self, line: &str) {
        let input = self.process.stdin.as_mut().expect("it is piped");
        writeln!(input, "{line}").and_then(|()| input.flush()).expect("the other process lives");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
