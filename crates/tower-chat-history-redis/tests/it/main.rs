//! Tests of the Redis store on real servers: a single one, and a cluster.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

mod contract;
mod cost;
mod damage;
mod erased;
mod fork;
mod frozen;
mod interleaved;
mod isolation;
mod large;
mod memory;
mod opening;
mod provenance;
mod proxy;
mod recalled;
mod reconnect;
mod registry;
mod replaced;
mod resent;
mod rights;
mod support;
mod swept;

use std::process::ExitCode;

use test_servers::redis;

fn main() -> ExitCode {
    let tests = [
        contract::tests(),
        cost::tests(),
        damage::tests(),
        erased::tests(),
        fork::tests(),
        frozen::tests(),
        interleaved::tests(),
        isolation::tests(),
        large::tests(),
        memory::tests(),
        opening::tests(),
        provenance::tests(),
        recalled::tests(),
        reconnect::tests(),
        registry::tests(),
        replaced::tests(),
        resent::tests(),
        rights::tests(),
        swept::tests(),
    ];
    test_servers::run(redis::NAME, redis::is_available(), tests.into_iter().flatten().collect())
}
