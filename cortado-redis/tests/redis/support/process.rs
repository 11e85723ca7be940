//! Processes that re-execute a test.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child as Process, Command, Stdio};

const ARGUMENT: &str = "CORTADO_REDIS_CHILD";

/// Whether this process was started by [`again`].
pub fn is_child() -> bool {
    std::env::var_os(ARGUMENT).is_some()
}

/// What the parent says.
pub fn argument() -> String {
    std::env::var(ARGUMENT).unwrap()
}

/// Another process that runs this test.
pub fn again(test: &str, argument: &str) -> Child {
    again_with(test, argument, &[])
}

/// The same, in an environment of its own.
pub fn again_with(test: &str, argument: &str, environment: &[(&str, &str)]) -> Child {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ARGUMENT, argument)
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap());
    Child { process, lines }
}

pub struct Child {
    process: Process,
    lines: BufReader<std::process::ChildStdout>,
}

impl Child {
    /// The rest of the next line that begins with `= `.
    pub fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the other process has ended");
            if let Some(place) = line.find("= ") {
                return line[place + 2..].trim().to_owned();
            }
        }
    }

    pub fn say(&mut self, line: &str) {
        let input = self.process.stdin.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    /// Waits for its end.
    pub fn succeeds(mut self) {
        self.process.stdin.take();
        std::io::copy(&mut self.lines, &mut std::io::stdout()).unwrap();
        assert!(self.process.wait().unwrap().success());
    }

    /// By SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
