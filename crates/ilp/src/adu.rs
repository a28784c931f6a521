//! Application data units in XDR (RFC 4506).

use crate::error::IlpError;

/// Most values within values: a list of options may be as long as its ADU.
pub const MAX_DEPTH: u32 = 64;

/// Where marshalled words go.
pub trait Sink {
    /// Takes one word.
    ///
    /// # Errors
    ///
    /// There is no room.
    fn word(&mut self, word: u32) -> Result<(), IlpError>;

    /// Takes octets, and zeros up to a whole word.
    ///
    /// # Errors
    ///
    /// There is no room.
    #[inline]
    fn octets(&mut self, octets: &[u8]) -> Result<(), IlpError> {
        let (words, rest) = octets.as_chunks::<4>();
        for word in words {
            self.word(u32::from_be_bytes(*word))?;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u32::from_be_bytes(last))
    }
}

/// Where marshalled words come from. What they say is not verified yet.
pub trait Source {
    /// The next word.
    ///
    /// # Errors
    ///
    /// There is none.
    fn word(&mut self) -> Result<u32, IlpError>;

    /// Octets that are left, and octets before them.
    fn left(&self) -> (usize, usize);

    /// Values that this one is within.
    fn depth(&mut self) -> &mut u32;

    /// Fails if there are fewer octets.
    ///
    /// # Errors
    ///
    /// There are fewer.
    fn need(&self, octets: usize) -> Result<(), IlpError> {
        let (left, before) = self.left();
        match octets <= left {
            true => Ok(()),
            false => Err(IlpError::Truncated { at: before + left }),
        }
    }

    /// Octets, and what fills the last word.
    ///
    /// # Errors
    ///
    /// There are fewer, or the filling is not zero.
    #[inline]
    fn octets(&mut self, octets: &mut [u8]) -> Result<(), IlpError> {
        let (words, rest) = octets.as_chunks_mut::<4>();
        for word in words {
            *word = self.word()?.to_be_bytes();
        }
        if rest.is_empty() {
            return Ok(());
        }
        let last = self.word()?.to_be_bytes();
        let (own, filling) = last.split_at(rest.len());
        rest.copy_from_slice(own);
        match filling.iter().all(|octet| *octet == 0) {
            true => Ok(()),
            false => Err(IlpError::BadPadding),
        }
    }
}

/// A type with an XDR form. `#[derive(Adu)]` of `layercast-ilp-macros` writes it for structures and enumerations.
pub trait Adu: Sized {
    /// Fewest octets of a value.
    const MIN: usize;

    /// Marshals the value.
    ///
    /// # Errors
    ///
    /// A value is longer than its type permits, or there is no room.
    fn encode<S: Sink>(&self, to: &mut S) -> Result<(), IlpError>;

    /// Unmarshals a value.
    ///
    /// # Errors
    ///
    /// The words are none.
    fn decode<S: Source>(from: &mut S) -> Result<Self, IlpError>;
}

/// A type of variable length, which needs a bound: `#[xdr(max = N)]`.
pub trait Bounded: Sized {
    /// Marshals the value.
    ///
    /// # Errors
    ///
    /// It has more than `max` elements, or there is no room.
    fn encode_within<S: Sink>(&self, max: usize, to: &mut S) -> Result<(), IlpError>;

    /// Unmarshals a value.
    ///
    /// # Errors
    ///
    /// It has more than `max` elements, or the words are none.
    fn decode_within<S: Source>(max: usize, from: &mut S) -> Result<Self, IlpError>;
}

/// Unmarshals a value within a value.
///
/// # Errors
///
/// The words are none, or too many values are within one another.
#[inline]
pub fn nested<S: Source, T>(
    from: &mut S,
    decode: impl FnOnce(&mut S) -> Result<T, IlpError>,
) -> Result<T, IlpError> {
    if *from.depth() >= MAX_DEPTH {
        return Err(IlpError::TooDeep);
    }
    *from.depth() += 1;
    let value = decode(from)?;
    *from.depth() -= 1;
    Ok(value)
}

macro_rules! one_word {
    ($($type:ty: $to:expr, $of:expr;)*) => {$(
        impl Adu for $type {
            const MIN: usize = 4;
            #[inline]
            fn encode<S: Sink>(&self, to: &mut S) -> Result<(), IlpError> {
                to.word($to(*self))
            }
            #[inline]
            fn decode<S: Source>(from: &mut S) -> Result<Self, IlpError> {
                from.word().map($of)
            }
        }
    )*};
}

macro_rules! two_words {
    ($($type:ty: $to:expr, $of:expr;)*) => {$(
        impl Adu for $type {
            const MIN: usize = 8;
            #[inline]
            fn encode<S: Sink>(&self, to: &mut S) -> Result<(), IlpError> {
                let both: u64 = $to(*self);
                to.word((both >> 32) as u32)?;
                to.word(both as u32)
            }
            #[inline]
            fn decode<S: Source>(from: &mut S) -> Result<Self, IlpError> {
                let high = u64::from(from.word()?);
                Ok($of(high << 32 | u64::from(from.word()?)))
            }
        }
    )*};
}

one_word! {
    u32: |it| it, |it| it;
    i32: |it: i32| it as u32, |it| it as i32;
    f32: f32::to_bits, f32::from_bits;
}

two_words! {
    u64: |it| it, |it| it;
    i64: |it: i64| it as u64, |it| it as i64;
    f64: f64::to_bits, f64::from_bits;
}

impl Adu for bool {
    const MIN: usize = 4;

    fn encode<S: Sink>(&self, to: &mut S) -> Result<(), IlpError> {
        to.word(u32::from(*self))
    }
    fn decode<S: Source>(from: &mut S) -> Result<bool, IlpError> {
        match from.word()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(IlpError::UnknownAdu(other)),
        }
    }
}

impl<T: Adu> Adu for Option<T> {
    const MIN: usize = 4;

    fn encode<S: Sink>(&self, to: &mut S) -> Result<(), IlpError> {
        self.is_some().encode(to)?;
        self.iter().try_for_each(|value| value.encode(to))
    }
    fn decode<S: Source>(from: &mut S) -> Result<Option<T>, IlpError> {
        match bool::decode(from)? {
            true => nested(from, T::decode).map(Some),
            false => Ok(None),
        }
    }
}

impl<T: Adu> Adu for Box<T> {
    const MIN: usize = 4;

    fn encode<S: Sink>(&self, to: &mut S) -> Result<(), IlpError> {
        T::encode(self, to)
    }
    fn decode<S: Source>(from: &mut S) -> Result<Box<T>, IlpError> {
        nested(from, T::decode).map(Box::new)
    }
}

/// Opaque octets of a fixed length.
impl<const N: usize> Adu for [u8; N] {
    const MIN: usize = N.next_multiple_of(4);

    fn encode<S: Sink>(&self, to: &mut S) -> Result<(), IlpError> {
        to.octets(self)
    }
    fn decode<S: Source>(from: &mut S) -> Result<[u8; N], IlpError> {
        let mut octets = [0; N];
        from.octets(&mut octets)?;
        Ok(octets)
    }
}

/// The number of elements, which the input can have.
fn count<S: Source>(max: usize, least: usize, from: &mut S) -> Result<usize, IlpError> {
    let len = from.word()? as usize;
    if len > max {
        return Err(IlpError::TooLong { len, max });
    }
    from.need(len.saturating_mul(least))?;
    Ok(len)
}

fn within(len: usize, max: usize) -> Result<u32, IlpError> {
    let fits = u32::try_from(len).ok().filter(|_| len <= max);
    fits.ok_or(IlpError::TooLong { len, max })
}

/// Opaque octets.
impl Bounded for Vec<u8> {
    fn encode_within<S: Sink>(&self, max: usize, to: &mut S) -> Result<(), IlpError> {
        to.word(within(self.len(), max)?)?;
        to.octets(self)
    }
    fn decode_within<S: Source>(max: usize, from: &mut S) -> Result<Vec<u8>, IlpError> {
        let mut octets = vec![0; count(max, 1, from)?];
        from.octets(&mut octets)?;
        Ok(octets)
    }
}

impl Bounded for String {
    fn encode_within<S: Sink>(&self, max: usize, to: &mut S) -> Result<(), IlpError> {
        to.word(within(self.len(), max)?)?;
        to.octets(self.as_bytes())
    }
    fn decode_within<S: Source>(max: usize, from: &mut S) -> Result<String, IlpError> {
        let octets = Vec::<u8>::decode_within(max, from)?;
        String::from_utf8(octets).map_err(|_| IlpError::BadText)
    }
}

impl<T: Adu> Bounded for Vec<T> {
    fn encode_within<S: Sink>(&self, max: usize, to: &mut S) -> Result<(), IlpError> {
        const { assert!(T::MIN > 0, "an element takes one word at least") };
        to.word(within(self.len(), max)?)?;
        self.iter().try_for_each(|value| value.encode(to))
    }
    fn decode_within<S: Source>(max: usize, from: &mut S) -> Result<Vec<T>, IlpError> {
        const { assert!(T::MIN > 0, "an element takes one word at least") };
        let len = count(max, T::MIN, from)?;
        // What the elements take in memory may be much more than on the wire: grows with those that are there.
        let mut values = Vec::new();
        for _ in 0..len {
            values.push(nested(from, T::decode)?);
        }
        Ok(values)
    }
}
