//! Small runs of the random tests: each scenario with some fixed seeds and some new ones.
//!
//! They run the program `random`, which `tests/random.sh` runs for a longer time. A failure prints the
//! scenario and the seed. `cargo run -p tests --bin random -- --scenario NAME --seed SEED` repeats that case.

use std::process::Command;

/// Runs a scenario with the seeds 1 to 4, and with `new` new seeds.
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
fn conversations_are_valid_complete_and_within_their_budget() {
    random("engine", 40);
}

#[test]
fn neighbors_do_not_affect_a_conversation() {
    random("neighbors", 2);
}

#[test]
fn callers_that_leave_lose_nothing_and_delay_no_other_caller() {
    random("cancel", 20);
}

#[test]
fn runtimes_that_shut_down_or_idle_lose_nothing() {
    random("shutdown", 20);
}

#[test]
fn replies_are_stored_as_sent_in_any_pieces() {
    random("streams", 6);
}

#[test]
fn stores_in_this_process_follow_the_contract() {
    random("stores", 40);
}

#[test]
fn stores_on_servers_follow_the_contract() {
    random("servers", 8);
}

#[test]
fn hostile_text_is_read_or_refused() {
    random("entry", 4);
}
