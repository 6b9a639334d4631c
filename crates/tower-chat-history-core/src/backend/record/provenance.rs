//! The stored form of provenances: a JSON array with fixed places, because every exchange has one.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize, de::Error as _};

use super::{PROVENANCES, RecordError, VERSION, Version, encoded, read};
use crate::{
    compaction::Positions,
    digest::Digest,
    json::AtMost,
    provenance::{Origin, PromptDigests, Provenance},
    seq::Seq,
};

/// The places of the array.
#[derive(Serialize, Deserialize)]
struct Stored<V, T>(
    /// The version of the record.
    V,
    /// The version of the renderer.
    u32,
    /// Where the log ended when the prompt was made.
    Option<Seq>,
    /// The estimated tokens.
    Option<u64>,
    /// The digests of the head and of the prompt and, if there is one, the key of the reader. Together, as base64.
    String,
    /// The positions of the cut.
    Positions,
    /// Provider, model, route, account and host, without the absent ones at the end.
    #[serde(default = "AtMost::default", skip_serializing_if = "AtMost::is_empty")]
    AtMost<Option<T>, 5>,
);

impl Provenance {
    /// Returns the text to store next to the exchange's record.
    ///
    /// # Errors
    ///
    /// Never fails for a value of this crate's own types. It returns a `Result` because serialization is fallible.
    pub fn encode(&self) -> Result<String, RecordError> {
        let mut digests = [self.digests.head.bytes(), self.digests.prompt.bytes()].concat();
        digests.extend(self.reader.into_iter().flat_map(Digest::bytes));

        let Origin { provider, route, account, model } = &self.origin;
        let mut names: Vec<_> = [provider, model, route, account, &self.host].map(Option::as_deref).into();
        while names.pop_if(|name| name.is_none()).is_some() {}

        encoded(&Stored(
            VERSION,
            self.renderer,
            self.made_at,
            self.tokens,
            URL_SAFE_NO_PAD.encode(digests),
            self.cut,
            AtMost(names),
        ))
    }

    /// Reads the value that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not such a record, or if a newer version of this library wrote it.
    pub fn decode(record: &str) -> Result<Self, RecordError> {
        read(record, PROVENANCES)
    }
}

/// Reads version 1.
pub(super) fn provenance_1(record: &str) -> Result<(Version, Provenance), serde_json::Error> {
    if let Some(provenance) = Places(record).provenance_1() {
        return Ok((Version(1), provenance));
    }
    of_any_form(record)
}

/// Reads version 1 with the JSON parser.
fn of_any_form(record: &str) -> Result<(Version, Provenance), serde_json::Error> {
    let Stored(version, renderer, made_at, tokens, digests, cut, AtMost(names)) = serde_json::from_str(record)?;
    let (digests, reader) =
        digests_and_reader(&digests).ok_or_else(|| serde_json::Error::custom("expected two or three digests"))?;

    let mut names = names.into_iter();
    let mut name = || names.next().flatten();
    let origin = Origin { provider: name(), model: name(), route: name(), account: name() };
    let host = name();

    Ok((version, Provenance { renderer, made_at, cut, digests, reader, tokens, origin, host }))
}

fn digests_and_reader(text: &str) -> Option<(PromptDigests, Option<Digest>)> {
    // base64 asks for room for whole groups of three bytes.
    let mut bytes = [0; 27];
    let len = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
    let (head, rest) = bytes.get(..len)?.split_first_chunk()?;
    let (prompt, reader) = rest.split_first_chunk()?;
    let reader = if reader.is_empty() { None } else { Some(Digest::from_bytes(reader.try_into().ok()?)) };

    Some((PromptDigests::new(Digest::from_bytes(*head), Digest::from_bytes(*prompt)), reader))
}

/// The rest of a record in the form that this crate writes: without white space, and without escapes in its texts. It
/// is read without the JSON parser, because a load of a window reads one for each exchange.
///
/// All methods return `None` if the rest begins with something else. The parser then decides.
struct Places<'a>(&'a str);

impl<'a> Places<'a> {
    fn provenance_1(mut self) -> Option<Provenance> {
        self.skip("[1,")?;
        let renderer = self.number()?.try_into().ok()?;
        self.skip(",")?;
        let mut made_at = None;
        self.number_or_null(&mut made_at)?;
        self.skip(",")?;
        let mut tokens = None;
        self.number_or_null(&mut tokens)?;
        self.skip(",")?;
        let (digests, reader) = digests_and_reader(self.quoted()?)?;
        self.skip(",[")?;
        let cut = self.positions()?;

        let mut origin = Origin::unknown();
        let mut host = None;
        if self.skip(",[").is_some() {
            self.names(&mut origin, &mut host)?;
        }
        self.skip("]")?;
        self.0.is_empty().then_some(Provenance {
            renderer,
            made_at: made_at.map(Seq::new),
            cut,
            digests,
            reader,
            tokens,
            origin,
            host,
        })
    }

    /// Reads the positions to the end of their list.
    fn positions(&mut self) -> Option<Positions> {
        let mut positions = <[Seq; _]>::from(Positions::default());
        if self.skip("]").is_some() {
            return Some(Positions::from(positions));
        }

        for seq in &mut positions {
            *seq = Seq::new(self.number()?);
            if self.skip("]").is_some() {
                return Some(Positions::from(positions));
            }
            self.skip(",")?;
        }
        None
    }

    /// Reads the names to the end of their list.
    fn names(&mut self, origin: &mut Origin, host: &mut Option<String>) -> Option<()> {
        for name in [&mut origin.provider, &mut origin.model, &mut origin.route, &mut origin.account, host] {
            if self.skip("null").is_none() {
                *name = Some(self.text()?.to_owned());
            }
            if self.skip("]").is_some() {
                return Some(());
            }
            self.skip(",")?;
        }
        None
    }

    fn skip(&mut self, text: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    /// Reads a number, which stays as it is at null.
    fn number_or_null(&mut self, number: &mut Option<u64>) -> Option<()> {
        if self.skip("null").is_none() {
            *number = Some(self.number()?);
        }
        Some(())
    }

    fn number(&mut self) -> Option<u64> {
        let mut number: u64 = 0;
        let mut len = 0;
        for digit in self.0.bytes().take_while(u8::is_ascii_digit) {
            number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
            len += 1;
        }
        if len == 0 || len > 1 && self.0.starts_with('0') {
            return None;
        }

        self.0 = &self.0[len..];
        Some(number)
    }

    fn text(&mut self) -> Option<&'a str> {
        let text = self.quoted()?;
        let is_plain = text.bytes().all(|byte| !matches!(byte, b'\\' | ..b' '));
        is_plain.then_some(text)
    }

    /// Reads up to the next quotation mark. The text may have escapes.
    fn quoted(&mut self) -> Option<&'a str> {
        self.skip("\"")?;
        let (text, rest) = self.0.split_at(memchr::memchr(b'"', self.0.as_bytes())?);
        self.0 = rest;
        self.skip("\"")?;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const USUAL: &str = r#"[1,1,7,12345,"cchrlGix8HfvJ0wiJTyNGXHIa5RosfB3",[2,2,0,2,0,5,3],["p",null,"ä","a"]]"#;

    fn usual(record: &str) -> Option<Provenance> {
        Places(record).provenance_1()
    }

    #[test]
    fn what_is_written_has_the_usual_form() {
        for record in [
            USUAL,
            r#"[1,1,null,null,"cchrlGix8HfvJ0wiJTyNGQ",[2,2,0,2],[null,"m"]]"#,
            r#"[1,1,null,null,"cchrlGix8HfvJ0wiJTyNGQ",[2,2,0,2],[null,"m",null,null,"api.test"]]"#,
            r#"[1,0,null,null,"AAAAAAAAAAAAAAAAAAAAAA",[]]"#,
        ] {
            let read = usual(record).unwrap();
            assert_eq!(read, of_any_form(record).unwrap().1);
            assert_eq!(read.encode().unwrap(), record);
        }
    }

    #[test]
    fn other_forms_are_left_to_the_parser() {
        for record in [
            USUAL.replace(',', ", "),
            USUAL.replace("[1,", "[2,"),
            USUAL.replace(",7,", ",07,"),
            USUAL.replace("ä", r"\u00e4"),
            USUAL.replace("ä", "\n"),
            format!("{USUAL} "),
        ] {
            assert_eq!(usual(&record), None, "{record}");
        }
    }

    proptest! {
        /// Records in which one part is replaced by another one.
        #[test]
        fn whatever_is_read_is_what_the_parser_reads(
            start in 0..USUAL.len(),
            len in 0..12_usize,
            part in r#"[\[\],"\\0-9a-cA\n-]{0,4}|null|18446744073709551616|\],\["#,
        ) {
            let end = USUAL.len().min(start + len);
            prop_assume!(USUAL.is_char_boundary(start) && USUAL.is_char_boundary(end));
            let record = [&USUAL[..start], &part, &USUAL[end..]].concat();
            if let Some(read) = usual(&record) {
                let (version, expected) = of_any_form(&record).unwrap();
                prop_assert!(version == Version(1));
                prop_assert_eq!(read, expected);
            }
        }
    }
}
