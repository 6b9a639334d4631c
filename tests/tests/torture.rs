//! Small runs of the program `torture`: several processes use one store and some are killed, while the server
//! is restarted and its connections are cut. Acknowledged exchanges must not be lost, duplicated or damaged. Half of
//! the conversations are in the signing dialect, whose provider refuses reasoning in another prompt than its own. The
//! processes also erase conversations, and none of these may return.
//!
//! `tests/torture.sh` makes large runs. If a server is not installed, its tests are listed as ignored and a
//! line says so. With `REQUIRE_SERVERS=1`, a missing server is a failure.
//!
//! This file is a binary of its own, because its list of tests depends on the installed servers.
#![allow(clippy::unwrap_used)] // A failed setup fails the test.

use std::{
    process::{Command, ExitCode},
    time::{SystemTime, UNIX_EPOCH},
};

use test_servers as servers;

/// The output of a successful run.
struct Report(String);

impl Report {
    /// Returns the first number of the line with this name.
    fn number(&self, name: &str) -> u64 {
        let value = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.unwrap().split([' ', ',']).next().unwrap().parse().unwrap()
    }
}

/// Asserts that both dialects were stored, and that reasoning was sent again.
fn assert_both_dialects(report: &Report) {
    let signed = report.number("exchanges stored in the signing dialect");
    assert!(signed > 0 && signed < report.number("exchanges stored"));
    assert!(report.number("messages whose signed reasoning was sent again") > 0);
}

/// Asserts that conversations of people were kept, removed and erased, and that late calls for them were refused.
fn assert_erasures(report: &Report) {
    let [stored, removed] = ["stored", "removed"].map(|what| report.number(&format!("conversations of people {what}")));
    assert!(removed > 0 && stored >= removed, "{stored} stored, {removed} removed");
    assert!(report.number("late calls refused") > 0);
}

/// Runs the program with these options. The variable `TEST_SEED` repeats the decisions of a run.
fn torture(options: &str) -> Report {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().to_string();
    let seed = std::env::var("TEST_SEED").unwrap_or(now);
    let mut command = Command::new(env!("CARGO_BIN_EXE_torture"));
    let ran = command.args(options.split(' ')).args(["--seed", &seed]).output().unwrap();
    let report = String::from_utf8(ran.stdout).unwrap();
    // This test harness does not capture output, so a failure contains it.
    assert!(ran.status.success(), "torture {options}\n{}{report}", String::from_utf8_lossy(&ran.stderr));
    Report(report)
}

mod sqlite {
    use libtest_mimic::Trial;
    use test_servers::trials;

    use super::{assert_both_dialects, assert_erasures, torture};

    pub(crate) fn tests() -> Vec<Trial> {
        trials![
            ; blocking:
            nothing_is_lost_when_processes_are_killed,
            eight_processes_write_one_conversation,
            eight_processes_write_one_signed_conversation,
            eight_processes_create_one_file,
            a_file_whose_creators_were_killed_can_be_used,
            nothing_is_lost_when_everything_is_encrypted,
        ]
    }

    fn nothing_is_lost_when_everything_is_encrypted() {
        super::nothing_is_lost_when_everything_is_encrypted("sqlite");
    }

    fn nothing_is_lost_when_processes_are_killed() {
        let report =
            torture("--store sqlite --processes 3 --conversations 6 --exchanges 400 --late-calls 1 --kills 14");
        assert_eq!(report.number("workers killed"), 14);
        assert!(report.number("exchanges stored") >= 400);
        assert_both_dialects(&report);
        assert_erasures(&report);
    }

    fn eight_processes_write_one_conversation() {
        let report = torture("--store sqlite --processes 8 --lanes 1 --conversations 1 --exchanges 400 --kills 0");
        assert!(report.number("exchanges stored") >= 400);
        // Several processes wrote at the same time, and competed for compactions.
        assert!(report.number("changes of the writer within a log") > 8);
        assert_eq!(report.number("compactions stored"), 2);
    }

    fn eight_processes_write_one_signed_conversation() {
        let report = torture("--store sqlite --processes 8 --lanes 1 --conversations 2 --exchanges 400 --kills 8");
        assert_both_dialects(&report);
        assert!(report.number("changes of the writer within a log") > 8);
    }

    fn eight_processes_create_one_file() {
        for _ in 0..3 {
            let report = torture("--store sqlite --processes 8 --lanes 2 --conversations 2 --exchanges 16 --kills 0");
            assert!(report.number("exchanges stored") >= 16);
        }
    }

    fn a_file_whose_creators_were_killed_can_be_used() {
        for _ in 0..6 {
            let options = "--store sqlite --processes 2 --conversations 1 --exchanges 4 --kills 0 --kill-first";
            assert_eq!(torture(options).number("workers killed"), 2);
        }
    }
}

mod postgres {
    use libtest_mimic::Trial;
    use test_servers::trials;

    pub(crate) fn tests() -> Vec<Trial> {
        trials![
            ; blocking:
            nothing_is_lost_when_the_server_crashes,
            nothing_is_lost_when_everything_is_encrypted,
        ]
    }

    fn nothing_is_lost_when_the_server_crashes() {
        super::nothing_is_lost_when_the_server_crashes("postgres", 6, 3);
    }

    fn nothing_is_lost_when_everything_is_encrypted() {
        super::nothing_is_lost_when_everything_is_encrypted("postgres");
    }
}

mod redis {
    use libtest_mimic::Trial;
    use test_servers::trials;

    pub(crate) fn tests() -> Vec<Trial> {
        trials![
            ; blocking:
            nothing_is_lost_when_the_server_crashes,
            nothing_is_lost_when_everything_is_encrypted,
        ]
    }

    fn nothing_is_lost_when_the_server_crashes() {
        super::nothing_is_lost_when_the_server_crashes("redis", 6, 3);
    }

    fn nothing_is_lost_when_everything_is_encrypted() {
        super::nothing_is_lost_when_everything_is_encrypted("redis");
    }
}

mod redis_cluster {
    use libtest_mimic::Trial;
    use test_servers::{cluster::NODES, trials};

    pub(crate) fn tests() -> Vec<Trial> {
        trials![; blocking: nothing_is_lost_when_nodes_crash, nothing_is_lost_when_everything_is_encrypted]
    }

    fn nothing_is_lost_when_everything_is_encrypted() {
        super::nothing_is_lost_when_everything_is_encrypted("redis-cluster");
    }

    fn nothing_is_lost_when_nodes_crash() {
        super::nothing_is_lost_when_the_server_crashes("redis-cluster", 12, 2 + u64::from(NODES));
    }
}

/// The server is also restarted and its connections are cut. It is restarted once more before everything is
/// read. A cluster gets more conversations, so that each node has some.
fn nothing_is_lost_when_the_server_crashes(store: &str, conversations: u32, restarts: u64) {
    let options = format!("--store {store} --processes 3 --conversations {conversations} --exchanges 250 --kills 6");
    let report = torture(&format!("{options} --late-calls 1 --restarts 2"));
    assert_eq!((report.number("workers killed"), report.number("server restarts")), (6, restarts));
    assert_both_dialects(&report);
    assert_erasures(&report);
    let faults = ["requests cut off", "answers lost", "delays"].map(|fault| report.number(fault));
    assert!(report.number("connections") > 0 && faults.iter().sum::<u64>() > 0);
}

/// The keys of chats and of people are replaced while the processes use them.
fn nothing_is_lost_when_everything_is_encrypted(store: &str) {
    let options = format!("--store {store} --encrypted --processes 3 --conversations 6 --exchanges 200 --kills 6");
    let report = torture(&format!("{options} --late-calls 1"));
    assert_eq!(report.number("workers killed"), 6);
    assert!(report.number("keys replaced") > 20);
    assert_both_dialects(&report);
    assert_erasures(&report);
}

fn main() -> ExitCode {
    let remote = [redis::tests(), redis_cluster::tests()].into_iter().flatten().collect();
    servers::run_groups([
        (None, sqlite::tests()),
        (Some((servers::postgres::NAME, servers::postgres::is_available())), postgres::tests()),
        (Some((servers::redis::NAME, servers::redis::is_available())), remote),
    ])
}
