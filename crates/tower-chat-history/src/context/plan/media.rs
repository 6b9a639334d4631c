//! Media as a resource of the prompt: images, audio, videos and documents that the reader doesn't accept become
//! constant texts. The texts around them stay as they are.
//!
//! A kind that the reader refuses is left out everywhere. If there are too many media, the oldest ones are left out, in
//! steps of half of the limit. So a prompt begins with the earlier ones until the next step.
//!
//! # Decisions
//!
//! - **The number that is left out is a pure function of what the prompt would have.** No position is stored. A
//!   compaction changes the number, so [`plan_prompt`](super::plan_prompt) counts again in what the compaction leaves.
//! - **The input is never changed.** Its media count, and those of the history make room for them.
//! - **Images and documents count together**, as Anthropic and Bedrock count them: `too many images and documents: 60 +
//!   50 > 100`. Other providers with a limit take no documents.
//! - **An image whose size isn't known stays.** The provider can read more formats than this library.

use tower_chat_history_core::{Media, MediaCompat, Message};

use super::item::{Extent, Item};
use crate::context::tokens::pixels;

/// A number of media, and the size of their inline data in bytes, as they are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MediaSize {
    pub(crate) number: usize,
    pub(crate) bytes: u64,
}

impl MediaSize {
    /// Returns the size of the media that can be left out of these messages.
    pub(crate) fn of<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Self {
        let mut size = Self::default();
        for message in messages {
            for medium in media_of(message, None) {
                size.add(medium);
            }
        }
        size
    }

    /// Returns the size of what is left out of these items.
    pub(super) fn left_out_of(items: &[Item]) -> Self {
        let mut size = Self::default();
        for Item { left_out, .. } in items {
            size.number += left_out.number;
            size.bytes = size.bytes.saturating_add(left_out.bytes);
        }
        size
    }

    fn add(&mut self, medium: Medium) {
        self.number += 1;
        self.bytes = self.bytes.saturating_add(medium.bytes);
    }
}

/// A medium of a message.
#[derive(Clone, Copy)]
struct Medium {
    media: Media,
    bytes: u64,
    /// True if it's an image with a side that is longer than allowed.
    is_large: bool,
}

impl Medium {
    const fn is_image(self) -> bool {
        matches!(self.media, Media::Image | Media::ImageLowDetail)
    }

    /// Returns `true` if it counts for the largest number of images.
    const fn is_counted(self) -> bool {
        self.is_image() || matches!(self.media, Media::File)
    }
}

/// Returns the media of a message, in order. Images are compared with the longest side that is allowed.
fn media_of(message: &Message, longest_side: Option<u32>) -> Vec<Medium> {
    let mut found = Vec::new();
    if !message.part_kinds().has_media {
        return found;
    }

    let unchanged = message.without_media(&mut |media, data| {
        let mut medium = Medium { media, bytes: data.map_or(0, |data| data.len() as u64), is_large: false };
        if medium.is_image()
            && let Some(longest) = longest_side
            && let Some((width, height)) = data.and_then(pixels)
        {
            medium.is_large = width.max(height) > longest.into();
        }
        found.push(medium);
        false
    });
    debug_assert!(unchanged.is_none(), "nothing is left out");
    found
}

/// Leaves out the media that the reader doesn't accept. Those of the items within this extent count, together with
/// those of the input. The other items are not sent.
pub(super) fn leave_out(items: &mut [Item], limits: MediaCompat, input: &[Message], counted: Extent) {
    if limits == MediaCompat::default() || !items.iter().any(|item| item.message.part_kinds().has_media) {
        return;
    }

    let of_items: Vec<Vec<Medium>> = items.iter().map(|item| media_of(&item.message, limits.pixels)).collect();
    let of_input: Vec<Medium> = input.iter().flat_map(|message| media_of(message, limits.pixels)).collect();
    let is_sent: Vec<bool> = items.iter().map(|item| item.message_in(counted).is_some()).collect();

    let within = of_items.iter().zip(&is_sent).filter(|(_, is_sent)| **is_sent).flat_map(|(media, _)| media);
    let mut oldest = Oldest::of(limits, within, &of_input);
    // Items that are not sent any more are treated as before, so that the sizes that were measured stay the same.
    let mut oldest_of_all = Oldest::of(limits, of_items.iter().flatten(), &of_input);

    for ((item, media), is_sent) in items.iter_mut().zip(&of_items).zip(is_sent) {
        let mut leaves_out = Vec::with_capacity(media.len());
        for medium in media {
            let is_of_all = oldest_of_all.has(*medium);
            leaves_out.push(if is_sent { oldest.has(*medium) } else { is_of_all });
        }
        item.leave_out_media(media, &leaves_out);
    }
}

/// The media that are left out: the kinds that are refused, and the oldest of the others. It's asked for each medium
/// in order.
struct Oldest {
    limits: MediaCompat,
    /// True if there are so many images that none may be large.
    are_many: bool,
    /// The number of images and documents that still have to be left out.
    images: u64,
    /// The bytes that still have to be left out.
    bytes: u64,
}

impl Oldest {
    fn of<'m>(limits: MediaCompat, history: impl Iterator<Item = &'m Medium> + Clone, input: &'m [Medium]) -> Self {
        let all = history.clone().chain(input);
        let images = all.filter(|medium| medium.is_image()).count() as u64;
        let are_many = images >= limits.many_images.unwrap_or_default().into();
        let mut oldest = Self { limits, are_many, images: 0, bytes: 0 };

        let accepted = history.filter(|medium| !oldest.refuses(**medium)).chain(input);
        let images = accepted.clone().filter(|medium| medium.is_counted()).count() as u64;
        let bytes = accepted.fold(0_u64, |bytes, medium| bytes.saturating_add(medium.bytes));

        // A large image of the input is only accepted if there are few images.
        let mut most_images = limits.images.filter(|most| *most > 0);
        if are_many && input.iter().any(|medium| medium.is_large) {
            let few = limits.many_images.map(|many| many.saturating_sub(1));
            most_images = most_images.into_iter().chain(few).min();
        }
        if let Some(most) = most_images {
            oldest.images = in_steps(images, most.into());
        }
        if let Some(most) = limits.bytes {
            oldest.bytes = in_steps(bytes, most);
        }
        oldest
    }

    /// Returns `true` if the reader refuses this medium, however many there are.
    fn refuses(&self, medium: Medium) -> bool {
        if !medium.is_image() {
            return self.limits.only_images;
        }
        self.limits.images == Some(0) || self.are_many && medium.is_large
    }

    /// Returns `true` if the next medium is left out.
    fn has(&mut self, medium: Medium) -> bool {
        if self.refuses(medium) {
            return true;
        }

        let is_among_images = medium.is_counted() && self.images > 0;
        let is_among_bytes = medium.bytes > 0 && self.bytes > 0;
        if medium.is_counted() {
            self.images = self.images.saturating_sub(1);
        }
        self.bytes = self.bytes.saturating_sub(medium.bytes);
        is_among_images || is_among_bytes
    }
}

/// Returns how much has to be left out of `all`, so that at most `most` is left: a multiple of half of `most`.
fn in_steps(all: u64, most: u64) -> u64 {
    let step = (most / 2).max(1);
    all.saturating_sub(most).div_ceil(step).saturating_mul(step)
}

impl Item {
    /// Leaves out those of its media for which there is a `true`.
    fn leave_out_media(&mut self, media: &[Medium], leaves_out: &[bool]) {
        if !leaves_out.contains(&true) {
            return;
        }

        let Some(message) = without_media(&self.message, leaves_out) else { return };
        self.message = message;
        for (medium, _) in media.iter().zip(leaves_out).filter(|(_, is_left_out)| **is_left_out) {
            self.left_out.add(*medium);
        }

        // Results are before everything else in their message, so the media of the rest are the last ones.
        if let Some(rest) = &mut self.rest {
            let number = media_of(rest, None).len();
            let of_rest = leaves_out.len().saturating_sub(number);
            if let Some(without) = leaves_out.get(of_rest..).and_then(|leaves_out| without_media(rest, leaves_out)) {
                *rest = without;
            }
        }
    }
}

/// Returns the message without those of its media for which there is a `true`.
fn without_media(message: &Message, leaves_out: &[bool]) -> Option<Message> {
    let mut leaves_out = leaves_out.iter();
    message.without_media(&mut |_, _| leaves_out.next().copied().unwrap_or_default())
}
