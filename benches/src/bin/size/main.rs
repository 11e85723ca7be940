//! How much code a cache type adds to a program, and how much each further call with a closure or
//! a future: small programs with no cache, one cache type, two, and one with ten loads more are
//! built in release mode, and the sizes of their code sections compared. The least program has a
//! lifetime for all entries, an insert and a read; the other one a policy, a listener, a load and a
//! removal, too. A program with fifteen types is built as small as cargo can.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use cortado_benches::machine::{description, version_of};
use cortado_benches::report::{Record, compare, table, write_csv};
use object::{Object, ObjectSection};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Measures the code of cache types.
#[derive(Debug, Parser)]
struct Options {
    /// Where to write all figures.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Loads that the features `loads` and `task-loads` add, each with a closure or future of its own.
const LOADS: f64 = 10.0;

/// A cache and the source of a program that uses it, with a type for each of the features `one` and
/// `two`.
struct Program {
    package: &'static str,
    source: &'static str,
}

const PROGRAMS: [Program; 3] = [
    Program { package: "cortado", source: include_str!("programs/cortado.rs") },
    Program { package: "moka", source: include_str!("programs/moka.rs") },
    Program { package: "quick_cache", source: include_str!("programs/quick_cache.rs") },
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in a workspace")
}

impl Program {
    fn manifest(&self) -> String {
        let dependency = match self.package {
            "cortado" => format!("{{ path = {:?} }}", root()),
            "moka" => format!(
                "{{ version = \"={}\", features = [\"future\", \"sync\"] }}",
                version_of("moka")
            ),
            other => format!("\"={}\"", version_of(other)),
        };
        format!(
            "[workspace]\n[package]\nname = \"sized\"\nedition = \"2024\"\n\
             [features]\ndefault = []\nleast = []\nleast-two = [\"least\"]\none = []\ntwo = [\"one\"]\n\
             fifteen = []\nloads = [\"one\"]\ntasks = []\ntask-loads = [\"tasks\"]\n\
             [profile.fat]\ninherits = \"release\"\nlto = \"fat\"\ncodegen-units = 1\npanic = \"abort\"\n\
             [dependencies]\n{} = {dependency}\n",
            self.package
        )
    }

    /// The bytes of the code section with this feature, in this profile.
    fn code(&self, directory: &Path, feature: &str, profile: &str) -> Result<u64> {
        let cargo = option_env!("CARGO").unwrap_or("cargo");
        let status = Command::new(cargo)
            .args(["build", "--quiet", "--profile", profile, "--features", feature])
            .env("CARGO_TARGET_DIR", directory.join("target"))
            .env_remove("RUSTFLAGS")
            .current_dir(directory)
            .status()
            .context("cannot run cargo")?;
        ensure!(status.success(), "the program with {} does not build", self.package);
        let program = directory.join("target").join(profile).join("sized");
        let program = program.with_extension(std::env::consts::EXE_EXTENSION);
        let binary = fs::read(program).context("cannot read the program")?;
        let binary = object::File::parse(&*binary)?;
        let section = binary.section_by_name(".text").context("the program has no code section")?;
        Ok(section.size())
    }

    fn records(&self) -> Result<Vec<Record>> {
        let directory = tempfile::tempdir()?;
        let path = directory.path();
        fs::create_dir(path.join("src"))?;
        fs::write(path.join("src/main.rs"), self.source)?;
        fs::write(path.join("src/poll.rs"), include_str!("programs/poll.rs"))?;
        fs::write(path.join("Cargo.toml"), self.manifest())?;
        // The same versions of everything as in the other benchmarks.
        fs::copy(root().join("Cargo.lock"), path.join("Cargo.lock"))?;
        let code = |feature| self.code(path, feature, "release").map(|bytes| bytes as f64);
        let fat = |feature| self.code(path, feature, "fat").map(|bytes| bytes as f64);
        let (least, least_two) = (code("least")?, code("least-two")?);
        let (none, one, two) = (code("default")?, code("one")?, code("two")?);
        let loads = code("loads")?;
        let (tasks, task_loads) = (code("tasks")?, code("task-loads")?);
        let record = |metric, bytes: f64| {
            let metric = (metric, "KiB");
            Record::new("code", self.package, (0, ""), metric, (bytes / 1024.0).into())
        };
        Ok(vec![
            record("the first cache type of the least program", least - none),
            record("one more type there", least_two - least),
            record("fifteen types, as small as can be", fat("fifteen")? - fat("default")?),
            record("the first cache type", one - none),
            record("one more cache type", two - one),
            record("one more load, with its closure", (loads - one) / LOADS),
            record("one more load by a task, with its future", (task_loads - tasks) / LOADS),
        ])
    }
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() -> Result<()> {
    let options = Options::parse();
    println!("{}\nrelease profile; code sections only\n", description());
    let mut records = Vec::new();
    for program in &PROGRAMS {
        println!("* {} {}", program.package, version_of(program.package));
        records.extend(program.records()?);
    }
    compare(&mut records, "cortado");
    println!("\n{}", table("code of a program, beside none", &records));
    if let Some(file) = &options.csv {
        write_csv(&records, File::create(file)?)?;
    }
    Ok(())
}
