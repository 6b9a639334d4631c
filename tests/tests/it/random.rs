//! Random tests in small: each scenario over some seeds that stay, and over some new ones.
//!
//! They are runs of the program `random`; `tests/random.sh` runs it for as long as it is told to. A failure names the
//! scenario and the seed: `cargo run -p tests --bin random -- --scenario NAME --seed SEED` repeats that case.
#![allow(clippy::panic)] // What a run found fails the test.

use std::process::Command;

/// Runs a scenario over the seeds 1 to 4 and as many new ones.
fn random(scenario: &str, new: u32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_random"));
    command.args(["--scenario", scenario, "--seed", "1,2,3,4", "--patience", "120", "--cases", &new.to_string()]);
    match command.output() {
        Ok(ran) if ran.status.success() => {}
        Ok(ran) => {
            let told = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            panic!("{}", told.concat());
        }
        Err(error) => panic!("the program does not start: {error}"),
    }
}

#[test]
fn any_conversation_is_valid_within_its_budget_and_whole() {
    random("engine", 40);
}

#[test]
fn a_conversation_does_not_notice_its_neighbors() {
    random("neighbors", 2);
}

#[test]
fn callers_that_leave_lose_nothing_and_hold_up_nobody() {
    random("cancel", 20);
}

#[test]
fn runtimes_that_end_or_idle_lose_nothing() {
    random("shutdown", 20);
}

#[test]
fn replies_are_stored_as_they_were_said_in_whatever_pieces_they_came() {
    random("streams", 6);
}

#[test]
fn stores_in_this_process_answer_as_the_contract_says() {
    random("stores", 40);
}

#[test]
fn stores_on_servers_answer_as_the_contract_says() {
    random("servers", 8);
}

#[test]
fn hostile_text_is_read_or_refused() {
    random("entry", 4);
}
