//! The kinds of hostile behavior that a scenario can mix in. A scenario without any of them is a plain one.
//! Each can be left out, to find the one that breaks a rule.

use std::{collections::BTreeSet, fmt, str::FromStr};

macro_rules! ingredients {
    ($($(#[doc = $about:literal])+ $variant:ident = $name:literal,)+) => {
        /// A kind of hostile behavior.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Ingredient { $($(#[doc = $about])+ $variant,)+ }

        impl Ingredient {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name, as the program `random` takes it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

ingredients! {
    /// Usage reports that no provider sends: 0, huge numbers, the largest number.
    HostileUsage = "hostile-usage",
    /// JSON nested up to 100,000 levels deep.
    DeepJson = "deep-json",
    /// Choices that the request did not ask for, and responses without choice 0.
    ForeignChoices = "foreign-choices",
    /// Replies whose role is not `assistant`.
    ForeignRoles = "foreign-roles",
    /// Tool calls without an id or with an empty id, and `null` among the calls.
    MissingIds = "missing-ids",
    /// `tool_calls` that is not a list, and calls without a function.
    MalformedCalls = "malformed-calls",
    /// Parallel calls that arrive whole, in one piece, without index and id.
    WholeCalls = "whole-calls",
    /// Indexes such as `0.0` or `"0"`, repeated keys, a byte order mark.
    OddWire = "odd-wire",
    /// List elements, such as `reasoning_details`, that arrive in pieces with an `index`.
    IndexedLists = "indexed-lists",
    /// Few permits for the model, and calls that wait in a conversation's queue or for its saves.
    HeldPermits = "held-permits",
    /// NUL characters in summaries and in the names of their models.
    Nuls = "nuls",
    /// Interrupted replies whose text is kept, followed by a repetition of the call.
    Partials = "partials",
    /// Transcripts whose texts lost their surrounding white space.
    TrimmedTranscripts = "trimmed-transcripts",
    /// Appends that succeed but whose answer is lost.
    LostAnswers = "lost-answers",
    /// Imported logs with tool results that answer no call, some of them between a call and its results.
    Orphans = "orphans",
    /// Questions that are dropped while tool calls are open, before the results arrive.
    DroppedQuestions = "dropped-questions",
    /// Results that arrive while a question about their calls is answered, with a summary made for that
    /// question.
    LateContinuations = "late-continuations",
    /// Searches for recall that fail, take long, or return messages that are not allowed.
    HostileRecall = "hostile-recall",
    /// Summaries that try to close their delimiter with the help of invisible characters.
    Delimiters = "delimiters",
    /// The same compaction from two replicas.
    EqualCuts = "equal-cuts",
    /// Exchanges without messages, under a load limit.
    EmptyExchanges = "empty-exchanges",
    /// Large compactions in a store with a memory limit.
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
            format!("unknown ingredient: expected one of {}", names.join(", "))
        })
    }
}

/// The kinds of hostile behavior that a case may mix in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingredients(BTreeSet<Ingredient>);

impl Ingredients {
    /// Returns the set of all kinds.
    #[must_use]
    pub fn all() -> Self {
        Self(Ingredient::ALL.iter().copied().collect())
    }

    /// Returns a set of these kinds only.
    #[must_use]
    pub fn only(these: impl IntoIterator<Item = Ingredient>) -> Self {
        Self(these.into_iter().collect())
    }

    /// Returns this set without these kinds.
    #[must_use]
    pub fn without(mut self, these: impl IntoIterator<Item = Ingredient>) -> Self {
        for one in these {
            self.0.remove(&one);
        }
        self
    }

    /// Returns true if the set contains this kind.
    #[must_use]
    pub fn has(&self, one: Ingredient) -> bool {
        self.0.contains(&one)
    }
}
