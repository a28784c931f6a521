use layercast_core::DataClass;

/// What a datagram says of the picture that it is of: the short form of frame marking for RTP (RFC 9626, 3.2), one octet.
///
/// The class follows from it: independent is I, discardable is B, any other is P.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FrameMarking {
    /// First datagram of its picture.
    pub start: bool,
    /// Last datagram of its picture.
    pub end: bool,
    /// The picture refers to no other.
    pub independent: bool,
    /// No picture refers to it.
    pub discardable: bool,
}

const START: u8 = 0x80;
const END: u8 = 0x40;
const INDEPENDENT: u8 = 0x20;
const DISCARDABLE: u8 = 0x10;

/// Differentiated services code points of assured forwarding 4 (RFC 2597): AF41 is discarded last, AF43 first.
const AF41: u8 = 34;
const AF42: u8 = 36;
const AF43: u8 = 38;

impl FrameMarking {
    /// The marking of a datagram of a class; of [`DataClass::System`], as of I pictures.
    pub fn of(class: DataClass, start: bool, end: bool) -> FrameMarking {
        FrameMarking {
            start,
            end,
            independent: matches!(class, DataClass::System | DataClass::Intra),
            discardable: class == DataClass::Bidirectional,
        }
    }

    /// The octet of the header extension; the lower four bits are zero.
    pub fn encode(self) -> u8 {
        let bit = |is_set: bool, bit| if is_set { bit } else { 0 };
        bit(self.start, START)
            | bit(self.end, END)
            | bit(self.independent, INDEPENDENT)
            | bit(self.discardable, DISCARDABLE)
    }

    /// Reads the first octet of either form: the long one has the same four bits.
    pub fn decode(octet: u8) -> FrameMarking {
        FrameMarking {
            start: octet & START != 0,
            end: octet & END != 0,
            independent: octet & INDEPENDENT != 0,
            discardable: octet & DISCARDABLE != 0,
        }
    }

    /// The class of the datagram.
    pub fn class(self) -> DataClass {
        match (self.discardable, self.independent) {
            (true, _) => DataClass::Bidirectional,
            (false, true) => DataClass::Intra,
            (false, false) => DataClass::Predicted,
        }
    }
}

/// The code point for datagrams of a class: S and I AF41, P AF42, B AF43. Three drop precedences carry four classes, so that S and I
/// are one.
pub fn dscp_of(class: DataClass) -> u8 {
    match class {
        DataClass::System | DataClass::Intra => AF41,
        DataClass::Predicted => AF42,
        DataClass::Bidirectional => AF43,
    }
}

/// The class of a datagram with a code point: of AF41 I, AF42 P, AF43 B; any other is no layered video, and S.
pub fn class_of_dscp(dscp: u8) -> DataClass {
    match dscp {
        AF41 => DataClass::Intra,
        AF42 => DataClass::Predicted,
        AF43 => DataClass::Bidirectional,
        _ => DataClass::System,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_octet_is_that_of_the_rfc() {
        // S E I D, from the highest bit.
        let all = (0..16).map(|bits| bits << 4);
        for octet in all {
            assert_eq!(FrameMarking::decode(octet).encode(), octet);
        }
        assert_eq!(
            FrameMarking::of(DataClass::Intra, true, false).encode(),
            0xA0
        );
        assert_eq!(
            FrameMarking::of(DataClass::Bidirectional, false, true).encode(),
            0x50
        );
        // The lower bits of the long form do not matter.
        assert_eq!(FrameMarking::decode(0x9B).class(), DataClass::Bidirectional);
    }

    #[test]
    fn classes_survive_the_marking_and_the_code_point_as_far_as_these_tell() {
        for class in DataClass::ALL {
            let told = match class {
                DataClass::System => DataClass::Intra,
                class => class,
            };
            let octet = FrameMarking::of(class, false, false).encode();
            assert_eq!(FrameMarking::decode(octet).class(), told);
            assert_eq!(class_of_dscp(dscp_of(class)), told);
        }
        assert_eq!(class_of_dscp(0), DataClass::System);
    }
}
