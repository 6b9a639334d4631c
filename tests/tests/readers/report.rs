//! The counts of all conversations.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::Path,
};

use super::{
    kinds::{Kind, Target},
    reader::Reader,
    talk::Outcome,
};

/// The counts of one reader and one kind of conversations, or of several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) questions: usize,
    pub(crate) refused_on_the_wire: usize,
    pub(crate) refused_at_the_caller: usize,
    /// The largest number of refusals on the wire in a conversation.
    pub(crate) most_in_a_conversation: usize,
    pub(crate) dead: usize,
    /// The first line of each refusal.
    words: BTreeSet<String>,
}

impl Counts {
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.questions += outcome.questions;
        self.refused_on_the_wire += outcome.refused_on_the_wire.len();
        self.refused_at_the_caller += outcome.refused_at_the_caller.len();
        self.most_in_a_conversation = self.most_in_a_conversation.max(outcome.refused_on_the_wire.len());
        self.dead += usize::from(outcome.is_dead);
        let on_the_wire = !outcome.refused_on_the_wire.is_empty();
        let refused = if on_the_wire { &outcome.refused_on_the_wire } else { &outcome.refused_at_the_caller };
        self.words.extend(refused.iter().map(|words| words.lines().take(3).collect::<Vec<_>>().join(" ")));
    }

    fn extend(&mut self, other: &Self) {
        self.questions += other.questions;
        self.refused_on_the_wire += other.refused_on_the_wire;
        self.refused_at_the_caller += other.refused_at_the_caller;
        self.most_in_a_conversation = self.most_in_a_conversation.max(other.most_in_a_conversation);
        self.dead += other.dead;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { questions, refused_on_the_wire, refused_at_the_caller, dead, words, .. } = self;
        write!(f, "of {questions} questions, {refused_on_the_wire} refused on the wire, ")?;
        write!(f, "{refused_at_the_caller} at the caller, {dead} conversations dead: {words:?}")
    }
}

/// All counts, which the tests fill in.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// By the kind's place and the package of the reader.
    rows: BTreeMap<(usize, bool), Row>,
    /// The readers that have refused with these words, by kind.
    words: BTreeMap<(usize, &'static str, String), BTreeSet<String>>,
}

#[derive(Debug)]
struct Row {
    kind: &'static str,
    target: Target,
    readers: usize,
    counts: Counts,
}

impl Report {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn add(&mut self, place: usize, kind: &Kind, reader: &Reader, counts: &Counts) {
        for words in &counts.words {
            let readers = self.words.entry((place, kind.name, words.clone())).or_default();
            readers.insert(reader.name.clone());
        }
        let row = Row { kind: kind.name, target: kind.target, readers: 0, counts: Counts::default() };
        let row = self.rows.entry((place, reader.is_template())).or_insert(row);
        row.readers += 1;
        row.counts.extend(counts);
    }

    /// Writes the page of the report.
    pub(crate) fn write(&self) {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reports/readers.md");
        fs::write(page, format!("{INTRODUCTION}\n{self}")).unwrap();
    }
}

const INTRODUCTION: &str = "\
# Conversations in front of real readers

The prompts of the layer, read as servers of open models read them: rendered with the chat templates that the Python
packages trl and axolotl ship, and checked by the validators of mistral-common, an older and a newer version of it. A
reader that refuses a prompt answers 400 with its own words.

```sh
.ci/readers && READERS_REPORT=1 cargo test -p tests --test readers
```

The versions are in `tests/readers/requirements.txt`. A kind of conversations is only for the readers that take what it
contains, in a list without flaws. A question is refused at the caller if the caller gets no reply. A conversation is
dead if all questions at its end are refused, at least three. `none` as the target says that no request may be refused,
`one` that each conversation may have one refusal, after which the call is repeated, and `some` that it may have one for
each thing that the reader does not take. Nothing may be refused at the caller. Without a target, the kind is only
counted.
";

/// The most readers that the report names for a refusal.
const SHOWN: usize = 12;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (title, are_templates) in [("Chat templates", true), ("mistral-common", false)] {
            writeln!(f, "## {title}\n")?;
            writeln!(
                f,
                "| conversation | target | readers | questions | refused on the wire | at the caller | dead |"
            )?;
            writeln!(f, "|---|---|---|---|---|---|---|")?;
            for ((_, is_template), row) in &self.rows {
                if *is_template == are_templates {
                    writeln!(f, "{row}")?;
                }
            }
            writeln!(f)?;
        }
        if self.words.is_empty() {
            return Ok(());
        }

        writeln!(f, "## Refusals\n\n| conversation | words | readers |\n|---|---|---|")?;
        for ((_, kind, words), readers) in &self.words {
            let words = words.replace('|', "\\|");
            let first: Vec<_> = readers.iter().take(SHOWN).map(String::as_str).collect();
            let more = if readers.len() > SHOWN { ", ..." } else { "" };
            writeln!(f, "| {kind} | `{words}` | {}: {}{more} |", readers.len(), first.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = match self.target {
            Target::NoRefusal => "none",
            Target::OneRefusal => "one",
            Target::SomeRefusals => "some",
            Target::None => "",
        };
        let Self { kind, readers, counts, .. } = self;
        let Counts { questions, refused_on_the_wire, refused_at_the_caller, dead, .. } = counts;
        write!(
            f,
            "| {kind} | {target} | {readers} | {questions} | {refused_on_the_wire} | {refused_at_the_caller} | {dead} |"
        )
    }
}
