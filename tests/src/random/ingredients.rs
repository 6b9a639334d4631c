//! Kinds of hostile behavior. Without all of them a scenario is a plain one; each can be left out, to see whether it is what
//! breaks a rule.

use std::{collections::BTreeSet, fmt, str::FromStr};

macro_rules! ingredients {
    ($($(#[doc = $about:literal])+ $variant:ident = $name:literal,)+) => {
        /// A kind of hostile behavior.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Ingredient { $($(#[doc = $about])+ $variant,)+ }

        impl Ingredient {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name, as the program takes it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

ingredients! {
    /// Usage reports that no provider would make: 0, huge, the largest number.
    HostileUsage = "hostile-usage",
    /// JSON that is nested up to 100,000 levels deep.
    DeepJson = "deep-json",
    /// Choices that nobody asked for, and only choices without index 0.
    ForeignChoices = "foreign-choices",
    /// Replies whose role is not the assistant's.
    ForeignRoles = "foreign-roles",
    /// Tool calls without an id, with an empty one, and `null` among calls.
    MissingIds = "missing-ids",
    /// `tool_calls` that is no list, and calls without a function.
    MalformedCalls = "malformed-calls",
    /// Parallel calls, each whole in one piece, without index and id.
    WholeCalls = "whole-calls",
    /// Indexes that are `0.0` or `"0"`, repeated keys, a byte order mark.
    OddWire = "odd-wire",
    /// Elements of lists, such as `reasoning_details`, that come in pieces by their `index`.
    IndexedLists = "indexed-lists",
    /// Calls that wait in a conversation's queue, or for its saves, where permits are few.
    HeldPermits = "held-permits",
    /// Runtimes that hold summaries and are not driven.
    IdleRuntimes = "idle-runtimes",
    /// Saves that are finished where no runtime is.
    NoRuntime = "no-runtime",
    /// NUL in summaries and in the names of their models.
    Nuls = "nuls",
    /// Interrupted replies whose text is kept, and whose calls are repeated.
    Partials = "partials",
    /// Transcripts whose texts lost the white space around them.
    TrimmedTranscripts = "trimmed-transcripts",
    /// Appends that are done and whose answer is lost.
    LostAnswers = "lost-answers",
    /// Imported logs with results that answer nothing, between calls and their results too.
    Orphans = "orphans",
    /// Questions on open calls that come to nothing, before the results come.
    DroppedQuestions = "dropped-questions",
    /// Results that come while a question on their calls is answered, for which a summary was made.
    LateContinuations = "late-continuations",
    /// Counters that panic in any of their methods.
    CounterPanics = "counter-panics",
    /// Spawners that panic.
    SpawnerPanics = "spawner-panics",
    /// Summaries that try to close their delimiter by characters that are not seen.
    Delimiters = "delimiters",
    /// Equal compactions from two replicas.
    EqualCuts = "equal-cuts",
    /// Exchanges without messages under a load limit.
    EmptyExchanges = "empty-exchanges",
    /// Large compactions in a store that is limited.
    LargeCompactions = "large-compactions",
}

impl fmt::Display for Ingredient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Ingredient {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|one| one.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|one| one.name()).collect();
            format!("no ingredient; there are {}", names.join(", "))
        })
    }
}

/// The kinds of hostile behavior that a case may mix in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingredients(BTreeSet<Ingredient>);

impl Ingredients {
    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Self(Ingredient::ALL.iter().copied().collect())
    }

    /// None but these.
    #[must_use]
    pub fn only(these: impl IntoIterator<Item = Ingredient>) -> Self {
        Self(these.into_iter().collect())
    }

    /// These without some.
    #[must_use]
    pub fn without(mut self, these: impl IntoIterator<Item = Ingredient>) -> Self {
        for one in these {
            self.0.remove(&one);
        }
        self
    }

    /// Returns whether one is among them.
    #[must_use]
    pub fn has(&self, one: Ingredient) -> bool {
        self.0.contains(&one)
    }
}
