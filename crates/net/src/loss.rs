use std::fmt;

/// Losses, and what tells their cause; it is shown as that cause and what helps.
///
/// A switch marks packets while its queue is half full, so a queue that overflows has marked before. It drops enhancement
/// frames first. Losses without marks are those of the path: of a radio link, a policer, an overloaded host, or a router
/// that does not mark.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// Lost frames of the base layer, after repair.
    pub base: u64,
    /// Packets with the congestion mark.
    pub marked: u64,
    /// Packets of the base layer that parities repaired or could repair; `None` without parities.
    pub repaired: Option<u64>,
    /// Datagrams of the last link that did not arrive when they were due, repaired or not; `None` without link repair, which counts
    /// them.
    pub on_link: Option<u64>,
    /// The receiving host hands frames over too late, and drops datagrams.
    pub overloaded: bool,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_path = self.marked == 0 || self.repaired.is_some_and(|repaired| repaired > 0);
        if self.on_link == Some(0) && self.marked == 0 {
            return f.write_str(
                "the last link lost no packet: the source or a switch dropped these frames, or a link before the last one lost \
                 them (the messages of serve and of each switch tell, and layercast stats at each of them)",
            );
        }
        match (is_path, self.repaired, self.base) {
            (false, ..) => f.write_str(
                "a queue on the path was full (congestion marks): raise the rate of that link, or limit the rate of the \
                 encoder (-maxrate and -bufsize: layercast probe suggests values)",
            ),
            (true, None, _) => f.write_str(
                "no queue was full (no congestion marks), so the path itself loses packets: link repair (--repair auto, \
                 the default) sends them again if the playout delay leaves time for a round trip (serve --delay-max, join \
                 --playout); serve --protect-base auto adds parities for the base layer",
            ),
            (true, Some(repaired), 0) => write!(
                f,
                "the path itself loses packets: the parities repaired all of the base layer ({repaired} {packets}); \
                 enhancement layers have no parities, link repair (--repair auto, the default) repairs all layers",
                packets = if repaired == 1 { "packet" } else { "packets" }
            ),
            (true, Some(_), _) => f.write_str(
                "the path itself loses more packets than the parities repair: a stronger code helps (serve \
                 --protect-base 8+4; auto follows the reported loss after some 16 s)",
            ),
        }?;
        // A host that reads its sockets late may lose datagrams, but need not: the path is reported all the same.
        if self.overloaded {
            f.write_str(
                "; besides, this host is overloaded and may lose packets itself: the command is woken too late and hands \
                 frames over after their time; end other programs, or give the command a higher priority",
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overloaded_host_hides_no_cause() {
        let of = |marked| {
            let loss = Loss {
                base: 4,
                marked,
                repaired: None,
                on_link: None,
                overloaded: true,
            };
            loss.to_string()
        };
        for (said, cause) in [
            (of(0), "the path itself loses packets"),
            (of(9), "a queue on the path was full"),
        ] {
            assert!(
                said.contains(cause) && said.contains("this host is overloaded"),
                "{said}"
            );
        }
    }

    #[test]
    fn the_cause_of_losses_follows_the_evidence() {
        let of_link = |base, marked, repaired, on_link| {
            Loss {
                base,
                marked,
                repaired,
                on_link,
                overloaded: false,
            }
            .to_string()
        };
        let loss = |base, marked, repaired| of_link(base, marked, repaired, None);
        assert!(loss(0, 9, None).contains("a queue on the path was full"));
        assert!(loss(0, 0, None).contains("serve --protect-base"));
        assert!(loss(5, 0, None).contains("--repair auto"));
        assert!(loss(0, 0, Some(40)).contains("repaired all of the base layer (40 packets)"));
        assert!(loss(3, 0, Some(40)).contains("a stronger code"));
        // Enhancement frames dropped by a queue: nothing was to be repaired.
        assert!(loss(0, 9, Some(0)).contains("a queue on the path was full"));
        // A key frame that fills a queue on a path that also loses packets.
        assert!(loss(0, 2, Some(40)).contains("the path itself loses packets"));
        // What the source or a switch drops leaves no gap on the link behind it.
        assert!(of_link(3, 0, None, Some(0)).contains("the last link lost no packet"));
        assert!(of_link(3, 0, None, Some(2)).contains("the path itself loses packets"));
        assert!(of_link(3, 9, None, Some(0)).contains("a queue on the path was full"));
    }
}
