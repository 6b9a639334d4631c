//! Small talk recalls nothing, questions do.

use tower_chat_history::recall::{Analyzer, Decision, Gate, Language, LogTerms, Search};
use tower_chat_history_core::{Message, Recorded, Seq};

/// 180 phrases. The list of the gate was extended after the first 40 were tried, and not after the others. The last 100
/// are by an author who had not seen the gate.
const SMALL_TALK: &str = include_str!("small_talk.txt");
/// A conversation, a message a line.
const TALK: &str = include_str!("talk.txt");

/// Returns a log of the conversation between other talk, of 240 messages.
fn log() -> Vec<Recorded> {
    let filler = (0..100).flat_map(|n| {
        let (day, hour) = (n % 28 + 1, n % 12 + 1);
        [
            Message::user(format!("On day {day} I went to bed at {hour} and had a good night.")),
            Message::assistant(format!("Great, {hour} is a nice time. Have a good day {day}!")),
        ]
    });
    let talk = TALK.lines().zip([true, false].into_iter().cycle());
    let talk = talk.map(|(line, user)| if user { Message::user(line) } else { Message::assistant(line) });
    Recorded::log(talk.chain(filler).collect())
}

fn outcome(log: &[Recorded], analyzer: &Analyzer, text: &str) -> Decision {
    let within = Seq::FIRST..Seq::new(log.len() as u64);
    let search = Search::new(within, Gate::new(analyzer));
    search.run(&LogTerms::of(analyzer, log), text).gate
}

#[test]
fn at_most_12_percent_of_small_talk_opens_the_gate() {
    for analyzer in [Analyzer::default(), Analyzer::new([Language::English, Language::German])] {
        let log = log();
        let phrases: Vec<&str> = SMALL_TALK.lines().collect();
        assert_eq!(phrases.len(), 180);
        for (phrases, most) in [(&phrases[..80], 9), (&phrases[80..], 12)] {
            let open: Vec<_> = phrases.iter().filter(|phrase| outcome(&log, &analyzer, phrase).open).collect();
            assert!(open.len() <= most, "{open:?}");
        }
    }
}

#[test]
fn questions_about_the_conversation_open_the_gate() {
    let (log, analyzer) = (log(), Analyzer::default());
    for question in [
        "Where did my sister open her bakery?",
        "what did the vet say",
        "How much are the paintings insured for?",
        "Which mountain did we climb in Slovenia?",
        "Who of my guests cannot eat nuts?",
        "Tell me again about the almond cakes.",
    ] {
        let outcome = outcome(&log, &analyzer, question);
        assert!(outcome.open && outcome.information >= outcome.needed, "{question} {outcome:?}");
    }
}

#[test]
fn an_empty_log_and_an_empty_input_open_nothing() {
    let analyzer = Analyzer::default();
    assert!(!outcome(&[], &analyzer, "Where is my dog?").open);
    assert!(!outcome(&log(), &analyzer, "").open);
    assert!(!outcome(&log(), &analyzer, "What?").open);
}

#[test]
fn forms_of_one_word_are_one_word_of_evidence() {
    // Each of the two stemmers has its own form of "museums".
    let (log, analyzer) = (log(), Analyzer::new([Language::English, Language::German]));
    let outcome = outcome(&log, &analyzer, "Museums.");
    assert_eq!((outcome.open, outcome.information), (false, 0.0));
}

#[test]
fn the_need_can_be_set() {
    let (log, analyzer) = (log(), Analyzer::default());
    let within = Seq::FIRST..Seq::new(log.len() as u64);
    let open = |gate: Gate, text: &str| {
        let search = Search::new(within.clone(), gate);
        search.run(&LogTerms::of(&analyzer, &log), text).gate.open
    };
    assert!(open(Gate::new(&analyzer).need(1.0), "good coffee with milk"));
    assert!(!open(Gate::new(&analyzer).need(50.0), "good coffee with milk"));
    assert!(open(Gate::always_open(), "Thanks!"));
}
