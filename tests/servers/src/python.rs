//! Python programs whose data tests read.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Returns a Python in this folder that has the packages. They are installed if `imports`, a list of modules, cannot be
/// imported. Their versions are not fixed, so that tests follow the newest formats.
///
/// If Python is missing, or the packages cannot be installed, returns `None` and prints a line.
#[must_use]
pub fn python(folder: &Path, packages: &[&str], imports: &str) -> Option<PathBuf> {
    let python = folder.join("bin/python");
    let run = |args: &[&str]| is_done(Command::new(&python).args(args));
    let is_ready = || run(&["-W", "ignore", "-c", &format!("import {imports}")]);
    let is_made = || is_done(Command::new("python3").args(["-m", "venv"]).arg(folder));
    // uv takes a tenth of the time of pip, but it does not read pip's settings.
    let uv_installs = || {
        let uv = || {
            is_done(
                Command::new(folder.join("bin/uv")).args(["pip", "install", "--python"]).arg(&python).args(packages),
            )
        };
        run(&["-m", "pip", "install", "--quiet", "uv"]) && uv()
    };
    let pip_installs = || run(&[&["-m", "pip", "install", "--quiet"], packages].concat());
    if is_ready() || is_made() && (uv_installs() || pip_installs()) {
        return Some(python);
    }
    // Tests that pass show only what bypasses their output.
    drop(writeln!(std::io::stderr(), "left out: Python is missing, or {} cannot be installed", packages.join(", ")));
    None
}

/// Returns `true` if a Python program succeeds.
pub fn is_done(command: &mut Command) -> bool {
    // Nothing is sent to LangSmith.
    let command = command.env("LANGSMITH_TRACING", "false").stdin(Stdio::null());
    command.output().is_ok_and(|output| {
        print!("{}", String::from_utf8_lossy(&output.stderr));
        output.status.success()
    })
}
