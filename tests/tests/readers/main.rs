//! Conversations in front of real readers: the chat templates that trl and axolotl ship, and the validators of
//! mistral-common. Whatever a conversation contains, no question of it is refused at the caller, and it never dies.
//!
//! `.ci/readers` installs the readers. If they are missing, the tests are listed as ignored and a line says so. With
//! `REQUIRE_SERVERS=1`, missing readers are a failure.
//!
//! At the end, the tests print a table of their counts. With `READERS_REPORT=1`, they write it into
//! `docs/reports/readers.md`.
//!
//! This file is a binary of its own, because its list of tests depends on the installed readers.
#![allow(clippy::unwrap_used)] // A failed setup fails the test.

mod kinds;
mod reader;
mod report;
mod talk;

use std::{
    env,
    process::ExitCode,
    sync::{Arc, Mutex},
};

use test_servers as servers;

use self::{
    kinds::{Kind, Target, kinds},
    reader::Readers,
    report::{Counts, Report},
    talk::talk,
};

fn main() -> ExitCode {
    let report = Arc::new(Mutex::new(Report::default()));
    let mut tests = Vec::new();
    for (place, kind) in kinds().into_iter().enumerate() {
        let report = Arc::clone(&report);
        tests.push(servers::test(kind.name.replace(' ', "_").replace(',', ""), move || ask_all(place, kind, report)));
    }
    let readers = Some(("the chat templates (.ci/readers)", Readers::are_installed()));
    let code = servers::run_groups([(readers, tests)]);

    let report = report.lock().unwrap();
    if !report.is_empty() {
        println!("{report}");
        if env::var_os("READERS_REPORT").is_some() {
            report.write();
        }
    }
    code
}

/// Has a conversation of this kind with each reader that takes what it contains.
async fn ask_all(place: usize, kind: Kind, report: Arc<Mutex<Report>>) {
    let readers = Readers::take();
    let mut failed = Vec::new();
    for reader in readers.all() {
        if !kind.is_for(reader) {
            continue;
        }
        let mut counts = Counts::default();
        for seed in 0..kind.repeats {
            counts.add(&talk(&readers, reader, (kind.conversation)(reader, seed)).await);
        }
        let is_right = match kind.target {
            Target::NoRefusal => counts.refused_on_the_wire == 0 && counts.refused_at_the_caller == 0,
            Target::OneRefusal => counts.most_in_a_conversation <= 1 && counts.refused_at_the_caller == 0,
            Target::SomeRefusals => counts.refused_at_the_caller == 0,
            Target::None => true,
        };
        if !is_right {
            failed.push(format!("{}: {counts}", reader.name));
        }
        report.lock().unwrap().add(place, &kind, reader, &counts);
    }
    readers.give_back();
    assert!(failed.is_empty(), "{} readers, of which these refuse:\n{}", kind.name, failed.join("\n"));
}
