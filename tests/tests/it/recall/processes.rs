//! Two processes that index and search one conversation at the same time.

use std::{
    env,
    io::{self, BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdout, Command, Stdio},
};

use tests::Storage;
use tower_chat_history::{ConversationId, store::Seq};

use super::{
    log::{LEN, exchange, few, questions},
    world::World,
};

/// The environment variable with the number of a process, the conversation, and the address of the store.
const INDEXER: &str = "CHAT_HISTORY_INDEXER";
const PROCESSES: usize = 2;
/// The number of times that the first process removes the index.
const REMOVALS: usize = 2;
const BEFORE: Seq = Seq::new(LEN - 4);
/// The line that a process writes when it has opened the store.
const READY: &str = "ready to index";

#[tokio::test]
async fn two_processes_make_one_index_in_sqlite() {
    in_two_processes("sqlite", Storage::sqlite).await;
}

#[tokio::test]
async fn two_processes_make_one_index_in_postgres() {
    in_two_processes("postgres", Storage::postgres).await;
}

#[tokio::test]
async fn two_processes_make_one_index_in_redis() {
    in_two_processes("redis", Storage::redis).await;
}

#[tokio::test]
async fn two_processes_make_one_index_in_cluster() {
    in_two_processes("cluster", Storage::cluster).await;
}

async fn in_two_processes(store: &str, open: impl AsyncFnOnce() -> Option<Storage>) {
    if let Ok(role) = env::var(INDEXER) {
        return index_and_search(&role).await;
    }
    let Some(storage) = open().await else { return };
    let world = World::new(storage, |index| index);
    world.append(0..LEN, |position| exchange(1, position)).await;
    let address = world.storage.address().unwrap();
    let test = format!("recall::processes::two_processes_make_one_index_in_{store}");
    let started = (0..PROCESSES).map(|number| start(&test, &format!("{number} {} {address}", world.id)));
    let mut processes: Vec<(Child, BufReader<ChildStdout>)> = started.collect();
    for (_, output) in &mut processes {
        read_to(output, READY);
    }
    for (process, _) in &mut processes {
        writeln!(process.stdin.as_mut().unwrap(), "go").unwrap();
    }
    for (mut process, mut output) in processes {
        let rest = io::read_to_string(&mut output).unwrap();
        let status = process.wait().unwrap();
        assert!(status.success() && rest.contains("test result: ok. 1 passed;"), "{status}: {rest}");
    }
    assert_eq!(world.blocks().await, [0..64, 64..128, 128..192, 192..256, 256..320]);
    assert_eq!(world.prepare(&world.index(), BEFORE).await, (0, 0), "the index is complete");
    world.check(&questions(), BEFORE).await;
}

/// Starts this test in another process.
fn start(test: &str, role: &str) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(INDEXER, role);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(process.stdout.take().unwrap());
    (process, output)
}

fn read_to(output: &mut impl io::BufRead, expected: &str) {
    let mut lines = output.lines();
    assert!(lines.any(|line| line.unwrap().ends_with(expected)), "the process has ended");
}

/// Indexes block after block, and compares each search with the memory store. The first process also removes the
/// index, which the other one may be reading, and makes it again.
async fn index_and_search(role: &str) {
    let (number, rest) = role.split_once(' ').unwrap();
    let (id, address) = rest.split_once(' ').unwrap();
    let storage = Storage::open_address(address).await;
    let id: ConversationId = id.parse().unwrap();
    let world = World::of_process(storage, id, 0..LEN, |position| exchange(1, position)).await;
    println!("\n{READY}");
    io::stdin().lock().read_line(&mut String::new()).unwrap();
    for _ in 0..=REMOVALS {
        let index = world.index();
        for block in 1..=LEN / 64 {
            world.prepare(&index, Seq::new(block * 64)).await;
            world.check_one(few()[0], BEFORE).await;
        }
        if number == "0" {
            world.remove_index(BEFORE).await;
        }
    }
    world.prepare(&world.index(), BEFORE).await;
    for question in few() {
        world.check_one(question, BEFORE).await;
    }
}
