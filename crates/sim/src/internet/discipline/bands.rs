//! Which class of packets has which band of a scheduler.

use std::fmt::Write as _;

use layercast_core::quantity::{Quantity, QuantityError};

use super::dscp::Dscp;

/// Most bands.
pub const MOST_BANDS: usize = 8;

/// A band for each class of packets: the first one is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bands {
    of: [u8; 64],
    /// The band of classes that have no name in the text.
    others: u8,
    count: u8,
}

impl Bands {
    /// The band of a class.
    pub fn of(&self, dscp: Dscp) -> usize {
        self.of[usize::from(dscp.value())].into()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.into()
    }
}

impl Default for Bands {
    /// Expedited forwarding and network control first, lower effort last.
    fn default() -> Bands {
        Bands::parse("ef va cs6 cs7, *, le").expect("it is as texts are")
    }
}

impl Quantity for Bands {
    const ACCEPTED: &'static str = "classes of each band, the first band first, such as \"ef cs6, af41 af42, *, le\": names or \
                                    numbers of DSCPs, each once; * is all others, by default a last band; at most 8 bands";

    fn parse(text: &str) -> Result<Bands, QuantityError> {
        let wrong = |cause: String| QuantityError::new::<Bands>(cause);
        const FREE: u8 = u8::MAX;
        let mut bands = Bands {
            of: [FREE; 64],
            others: FREE,
            count: 0,
        };
        for band in text.split(',') {
            if usize::from(bands.count) == MOST_BANDS {
                return Err(wrong(format!("{text:?} has more than {MOST_BANDS} bands")));
            }
            let mut is_empty = true;
            for class in band.split_whitespace() {
                is_empty = false;
                let place = match class {
                    "*" => &mut bands.others,
                    class => {
                        let dscp = Dscp::parse(class).map_err(|error| wrong(error.cause))?;
                        &mut bands.of[usize::from(dscp.value())]
                    }
                };
                if *place != FREE {
                    return Err(wrong(format!("{class:?} is there twice")));
                }
                *place = bands.count;
            }
            if is_empty {
                return Err(wrong(format!("{text:?} has a band without classes")));
            }
            bands.count += 1;
        }
        if bands.others == FREE {
            if usize::from(bands.count) == MOST_BANDS {
                return Err(wrong(format!(
                    "{text:?} has {MOST_BANDS} bands and no *, which would be another one"
                )));
            }
            bands.others = bands.count;
            bands.count += 1;
        }
        for place in &mut bands.of {
            if *place == FREE {
                *place = bands.others;
            }
        }
        Ok(bands)
    }

    fn write(&self) -> String {
        let mut text = String::new();
        for band in 0..self.count {
            if band > 0 {
                text.push_str(", ");
            }
            if band == self.others {
                text.push('*');
                continue;
            }
            let mut gap = "";
            for dscp in Dscp::all().filter(|&it| self.of(it) == usize::from(band)) {
                let _ = write!(text, "{gap}{}", dscp.write());
                gap = " ";
            }
        }
        text
    }

    fn pattern() -> String {
        let class = Dscp::pattern();
        let class = class.trim_start_matches('^').trim_end_matches('$');
        let band = format!(r"\s*({class}|\*)(\s+({class}|\*))*\s*");
        // No word is there twice. That a number and a name are one class is not said.
        let no_word_twice = r"(?!(?:.*[\s,])?([^\s,]+)[\s,](?:.*[\s,])?\1(?:[\s,]|$))";
        format!("^{no_word_twice}{band}(,{band}){{0,7}}$")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        for (text, written) in [
            ("ef", "ef, *"),
            ("*", "*"),
            ("cs6 ef ,af41,*, le", "ef cs6, af41, *, le"),
            ("46 cs1", "cs1 ef, *"),
            ("3, 5", "3, 5, *"),
        ] {
            let bands = Bands::parse(text).unwrap();
            assert_eq!(bands.write(), written);
            assert_eq!(Bands::parse(written), Ok(bands));
        }
        let bands = Bands::parse("ef cs6, af41, *, le").unwrap();
        let band = |text| bands.of(Dscp::parse(text).unwrap());
        assert_eq!(["ef", "cs6", "af41", "be", "le"].map(band), [0, 0, 1, 2, 3]);
        assert_eq!(bands.count(), 4);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "ef,",
            ",ef",
            "ef ef",
            "ef, 46",
            "* , *",
            "ee",
            "64",
            "1,2,3,4,5,6,7,8",
            "1,2,3,4,5,6,7,8,*",
        ] {
            assert!(Bands::parse(text).is_err(), "{text}");
        }
        assert!(Bands::parse("1,2,3,4,5,6,7,*").is_ok());
    }
}
