//! Tells the programs with which compiler and with which versions of the caches they were built.

use cargo_lock::{Lockfile, Package};
use std::path::Path;
use std::process::Command;

#[expect(clippy::print_stdout, reason = "it is how a build script speaks to cargo")]
fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace has a root");
    let lock = root.join("Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    println!("cargo::rerun-if-changed=build/script.rs");
    let lock = Lockfile::load(lock).expect("the workspace has a lock file");
    let named = |package: &&Package| package.name.as_str() == env!("CARGO_PKG_NAME");
    let this = lock.packages.iter().find(named).expect("this package is in it");
    let versions: Vec<String> = this
        .dependencies
        .iter()
        .map(|dependency| format!("{} {}", dependency.name, dependency.version))
        .collect();
    println!("cargo::rustc-env=BENCH_VERSIONS={}", versions.join(","));

    let rustc = std::env::var("RUSTC").expect("cargo says which");
    let version = Command::new(rustc).arg("--version").output().expect("it runs");
    let version = String::from_utf8(version.stdout).expect("it is text");
    println!("cargo::rustc-env=BENCH_RUSTC={}", version.trim());
}
