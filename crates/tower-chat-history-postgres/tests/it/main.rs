//! Tests of the PostgreSQL store on a real server.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

mod answers;
mod barring;
mod batching;
mod calls;
mod compactions;
mod contract;
mod cost;
mod crash;
mod erasing;
mod failures;
mod forking;
mod late;
mod limits;
mod listing;
mod no_text;
mod opening;
mod provenance;
mod proxy;
mod recalled;
mod refused;
mod scrubbing;
mod settings;
mod support;
mod trust;

use std::process::ExitCode;

use test_servers::postgres;

fn main() -> ExitCode {
    let tests = [
        answers::tests(),
        barring::tests(),
        calls::tests(),
        compactions::tests(),
        contract::tests(),
        cost::tests(),
        crash::tests(),
        erasing::tests(),
        failures::tests(),
        forking::tests(),
        late::tests(),
        limits::tests(),
        listing::tests(),
        opening::tests(),
        no_text::tests(),
        provenance::tests(),
        recalled::tests(),
        refused::tests(),
        scrubbing::tests(),
        settings::tests(),
        batching::tests(),
        trust::tests(),
    ];
    test_servers::run(postgres::NAME, postgres::is_available(), tests.into_iter().flatten().collect())
}
