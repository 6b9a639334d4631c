//! Several processes on one store, some of which are killed, while the server is restarted and its connections are cut: nothing
//! that was acknowledged is lost, nothing is there twice, nothing is torn.
//!
//! These are small runs of the program `torture`; `tests/torture.sh` makes large ones. Where a server is not installed, its test
//! is listed as ignored and a line says so; with `REQUIRE_SERVERS=1` that is a failure.
#![allow(clippy::unwrap_used)] // What cannot be set up fails the test.

use std::{
    process::{Command, ExitCode},
    time::{SystemTime, UNIX_EPOCH},
};

use libtest_mimic::{Arguments, Failed, Trial};
use tests::servers::{cluster::NODES, left_out, postgres, redis};

/// What a run printed, if all was well.
struct Report(String);

impl Report {
    /// The number that a line begins with, behind its name.
    fn number(&self, name: &str) -> u64 {
        let value = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.unwrap().split([' ', ',']).next().unwrap().parse().unwrap()
    }
}

/// Runs the program with these options. `TEST_SEED` in the environment repeats a run's decisions.
fn torture(options: &str) -> Result<Report, Failed> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().to_string();
    let seed = std::env::var("TEST_SEED").unwrap_or(now);
    let mut command = Command::new(env!("CARGO_BIN_EXE_torture"));
    let ran = command.args(options.split(' ')).args(["--seed", &seed]).output()?;
    let report = String::from_utf8(ran.stdout)?;
    let notes = String::from_utf8_lossy(&ran.stderr);
    // A test harness of this kind does not hold output back: a failure carries it.
    if ran.status.success() { Ok(Report(report)) } else { Err(format!("torture {options}\n{notes}{report}").into()) }
}

fn nothing_is_lost_when_processes_are_killed_sqlite() -> Result<(), Failed> {
    let report = torture("--store sqlite --processes 3 --conversations 6 --exchanges 600 --kills 20")?;
    assert_eq!(report.number("workers killed"), 20);
    assert!(report.number("exchanges stored") >= 600);
    Ok(())
}

fn eight_processes_write_one_conversation() -> Result<(), Failed> {
    let report = torture("--store sqlite --processes 8 --lanes 1 --conversations 1 --exchanges 400 --kills 0")?;
    assert!(report.number("exchanges stored") >= 400);
    // They did write at the same time, and raced for compactions too.
    assert!(report.number("changes of the writer within a log") > 8);
    assert_eq!(report.number("compactions stored"), 2);
    Ok(())
}

fn eight_processes_create_one_file() -> Result<(), Failed> {
    for _ in 0..5 {
        let report = torture("--store sqlite --processes 8 --lanes 2 --conversations 2 --exchanges 16 --kills 0")?;
        assert!(report.number("exchanges stored") >= 16);
    }
    Ok(())
}

fn a_file_whose_creators_were_killed_can_be_used() -> Result<(), Failed> {
    for _ in 0..10 {
        let options = "--store sqlite --processes 2 --conversations 1 --exchanges 4 --kills 0 --kill-first";
        assert_eq!(torture(options)?.number("workers killed"), 2);
    }
    Ok(())
}

/// A server is restarted and its connections are cut, too. There are more conversations for a cluster, so that each node has some.
fn nothing_is_lost_when_the_server_crashes(store: &str, conversations: u32, restarts: u64) -> Result<(), Failed> {
    let options = format!("--store {store} --processes 3 --conversations {conversations} --exchanges 600 --kills 8");
    let report = torture(&format!("{options} --restarts 2"))?;
    assert_eq!((report.number("workers killed"), report.number("server restarts")), (8, restarts));
    let faults = ["requests cut off", "answers swallowed", "delays"].map(|fault| report.number(fault));
    assert!(report.number("connections") > 0 && faults.iter().sum::<u64>() > 0);
    Ok(())
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let (postgres_is_there, redis_is_there) = (postgres::is_there(), redis::is_there());
    // Listing is not running: a list is read by a program.
    if !arguments.list {
        let servers = [(postgres::NAME, postgres_is_there), (redis::NAME, redis_is_there)];
        servers.iter().filter(|(_, is_there)| !is_there).for_each(|(name, _)| left_out(name));
    }
    // All that can be restarted is restarted once more before all is read back.
    let server = |store: &'static str| move || nothing_is_lost_when_the_server_crashes(store, 6, 3);
    let cluster = || nothing_is_lost_when_the_server_crashes("redis-cluster", 12, 2 + u64::from(NODES));
    let tests = vec![
        Trial::test(
            "sqlite::nothing_is_lost_when_processes_are_killed",
            nothing_is_lost_when_processes_are_killed_sqlite,
        ),
        Trial::test("sqlite::eight_processes_write_one_conversation", eight_processes_write_one_conversation),
        Trial::test("sqlite::eight_processes_create_one_file", eight_processes_create_one_file),
        Trial::test(
            "sqlite::a_file_whose_creators_were_killed_can_be_used",
            a_file_whose_creators_were_killed_can_be_used,
        ),
        Trial::test("postgres::nothing_is_lost_when_the_server_crashes", server("postgres"))
            .with_ignored_flag(!postgres_is_there),
        Trial::test("redis::nothing_is_lost_when_the_server_crashes", server("redis"))
            .with_ignored_flag(!redis_is_there),
        Trial::test("redis_cluster::nothing_is_lost_when_nodes_crash", cluster).with_ignored_flag(!redis_is_there),
    ];
    libtest_mimic::run(&arguments, tests).exit_code()
}
