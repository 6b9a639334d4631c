//! Words of small talk, and questions.

/// Words that say little about a subject, in lower case: an input of only these recalls nothing.
pub(super) const SMALL_TALK: &str = "
    absolutely actually again agree agreed ah already alright always amazing anything anyway apologies
    appreciate ask awesome back believe bet better bit bored boring brilliant bye care chance chat cheers clear
    come continue cool correct course day definitely done easy else enjoy enough evening ever everything exactly
    excellent exciting explain fair fantastic finally fine first forget forward funny get glad go gonna good
    goodbye got gotcha gotta great guess guys haha happy hello help helpful hey hi hmm hold honest honestly hope
    hurry idea impressive interesting joke joking keep kidding kind know later laugh least let let's like little
    lol look lot love lovely luck make makes matter maybe mention minute mistake moment morning much need never
    new next nice night nothing now obviously often ok okay one oops perfect perhaps please pleasure point
    pretty probably question quick quite rather ready really right same say see seem sense seriously set silly
    sleep somehow something sometimes soon sorry sounds start still stuff stupid suppose sure surprise take talk
    tell terrible thank thanks thing think time tired today tomorrow tonight totally true trust try understand
    understood usually wait wanna want way weekend welcome well whatever wonder wonderful worry worth wow wrong
    yeah yep yes yesterday";

/// Words that questions begin with, in several languages, as a list in JSON.
const QUESTION_WORDS: &str = include_str!("question_words.json");

/// Returns `true` if a text asks something: it has a question mark of any script, or begins with a question word.
pub(crate) fn asks(text: &str) -> bool {
    let mark = |c| matches!(c, '?' | '؟' | '？' | '՞' | ';' | '⁇' | '⁈' | '⁉' | '፧' | '꘏' | '︖' | '﹖');
    text.contains(mark) || begins_with_question_word(text)
}

fn begins_with_question_word(text: &str) -> bool {
    let text = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let apart = |c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '’' | '-'));
    let first = text.split(apart).next().unwrap_or_default();
    // No question word is longer.
    if first.is_empty() || first.len() > 32 {
        return false;
    }
    let first = first.to_lowercase().replace('’', "'");
    // In the list, each word is between quotation marks.
    !first.contains('"') && QUESTION_WORDS.contains(&format!("\"{first}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_have_a_mark_or_begin_with_a_question_word() {
        for text in ["My dog?", "what is my name", " \"Who’s that", "Wo wohne ich", "我叫什么？", "ما اسمي؟", "Τι;"]
        {
            assert!(asks(text), "{text}");
        }
        for text in ["", "Thanks a lot!", "Whatever you say", "My name is Nemo."] {
            assert!(!asks(text), "{text}");
        }
    }
}
