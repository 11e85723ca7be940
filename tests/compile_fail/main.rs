//! Programs that must not compile, each with the errors that it must have and where: `//~ E0277` at
//! the end of a line, or the beginning of the message where there is no code. Codes and lines stay
//! the same from one compiler to the next, whatever else the messages say.
#![cfg(not(any(cortado_loom, cortado_seeded)))]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Line and code, or message.
type Error = (u64, String);
type Errors = BTreeSet<Error>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The programs, by name.
fn cases() -> BTreeMap<String, String> {
    let folder = root().join("tests/compile_fail/cases");
    let case = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(&path).unwrap())
    };
    fs::read_dir(folder).unwrap().map(|entry| case(entry.unwrap().path())).collect()
}

/// What the program's marks say.
fn expected(program: &str) -> Errors {
    let mark = |(number, line): (usize, &str)| {
        let (_, mark) = line.split_once("//~ ")?;
        Some((number as u64 + 1, mark.trim().to_owned()))
    };
    program.lines().enumerate().filter_map(mark).collect()
}

/// A package whose programs are the cases.
fn package(cases: &BTreeMap<String, String>) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_fail");
    let sources = folder.join("src/bin");
    let _ = fs::remove_dir_all(folder.join("src"));
    fs::create_dir_all(&sources).unwrap();
    for (name, program) in cases {
        fs::write(sources.join(name).with_extension("rs"), program).unwrap();
    }
    let library = root().to_str().unwrap();
    let manifest = format!(
        "[package]\nname = \"cases\"\nedition = \"2024\"\npublish = false\n\n[workspace]\n\n\
         [dependencies]\ncortado = {{ path = {library:?}, features = [\"timer\"] }}\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    // The versions that the library's own tests are built with, which are there.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    folder
}

/// The errors of each program, as the compiler tells them; and those that have none.
fn compile(folder: &Path) -> (BTreeMap<String, Errors>, BTreeSet<String>) {
    let output = Command::new(env!("CARGO"))
        .args(["check", "--bins", "--keep-going", "--offline", "--message-format=json"])
        .arg("--target-dir")
        .arg(folder.join("target"))
        .current_dir(folder)
        // A sanitizer's are for this program, not for the compiler's plugins and build scripts.
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo runs");
    let (mut errors, mut sound) = (BTreeMap::<String, Errors>::new(), BTreeSet::new());
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let message: Value = serde_json::from_str(line).expect("cargo writes JSON");
        let name = || message["target"]["name"].as_str().unwrap().to_owned();
        match message["reason"].as_str() {
            Some("compiler-artifact") => drop(sound.insert(name())),
            Some("compiler-message") if message["message"]["level"] == "error" => {
                errors.entry(name()).or_default().extend(error(&message["message"]));
            }
            _ => {}
        }
    }
    assert!(
        sound.contains("cortado"),
        "the library itself: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    (errors, sound)
}

/// None for the line that says how many there were.
fn error(message: &Value) -> Option<Error> {
    let spans = message["spans"].as_array()?;
    let line = spans.iter().find(|span| span["is_primary"] == true)?["line_start"].as_u64()?;
    let text = message["code"]["code"].as_str().or(message["message"].as_str())?;
    Some((line, text.to_owned()))
}

/// Whether the errors are those that are marked: each of them marked, each mark one of them.
fn agree(marked: &Errors, found: &Errors) -> bool {
    let same = |mark: &Error, error: &Error| mark.0 == error.0 && error.1.starts_with(&mark.1);
    marked.iter().all(|mark| found.iter().any(|error| same(mark, error)))
        && found.iter().all(|error| marked.iter().any(|mark| same(mark, error)))
}

#[test]
fn what_must_not_compile_does_not() {
    let cases = cases();
    assert!(cases.len() > 25);
    let (errors, sound) = compile(&package(&cases));
    let mut wrong = Vec::new();
    for (name, program) in &cases {
        let (marked, found) = (expected(program), errors.get(name).cloned().unwrap_or_default());
        if !agree(&marked, &found) || marked.is_empty() != sound.contains(name) {
            wrong.push(format!("{name}: {marked:?} expected, {found:?} found"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(sound.contains("control"));
}

#[test]
fn the_marks_are_compared() {
    let errors = |list: &[(u64, &str)]| -> Errors {
        list.iter().map(|&(line, text)| (line, text.to_owned())).collect()
    };
    let marked = expected("fn main() {\n    a(); //~ E0277\n    b(); //~ lifetime may\n}\n");
    assert_eq!(marked, errors(&[(2, "E0277"), (3, "lifetime may")]));
    assert!(agree(&marked, &errors(&[(2, "E0277"), (3, "lifetime may not live long enough")])));
    assert!(!agree(&marked, &errors(&[(2, "E0277")])));
    assert!(!agree(&marked, &errors(&[(2, "E0425"), (3, "lifetime may not live")])));
    assert!(!agree(&errors(&[]), &errors(&[(2, "E0277")])));
}
