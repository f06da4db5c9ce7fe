//! Bodies of the fuzz targets, so that plain tests can replay their corpus. Not public API.

use crate::binlog::event::{Events, Failure, gtid_of, next_file, seen_before, statement};
use crate::clone::page::is_sound;
use crate::clone::protocol::Answer;
use crate::clone::redo;
use crate::tool_log::ToolLog;
use crate::transfer::frame::Frame;

/// What another end sends while files are copied: an answer of the clone plugin, a page or blocks
/// of a log, a frame of a transfer, the words of a tool. The first byte chooses.
pub fn copies(data: &[u8]) {
    let [what, bytes @ ..] = data else {
        return;
    };
    match what % 4 {
        0 => {
            // Most inputs end in an error.
            let _ = Answer::parse(bytes);
        }
        1 => {
            let mut page = bytes.to_vec();
            page.resize(4096, 0);
            for is_compressed in [false, true] {
                is_sound(&page, is_compressed);
            }
            let _ = redo::look(0, &page);
        }
        2 => {
            if let Some(frame) = Frame::read(bytes) {
                let mut again = Vec::new();
                frame.write(&mut again);
                assert_eq!(Frame::read(&again), Some(frame));
            }
        }
        _ => {
            let log = ToolLog::new();
            String::from_utf8_lossy(bytes)
                .lines()
                .for_each(|line| log.hear(line));
            let _ = (log.stage(), log.scanned(), log.blocked(), log.reason());
        }
    }
}

/// A binary log.
pub fn binlog(data: &[u8]) {
    let Ok(mut events) = Events::of(data) else {
        return;
    };
    let mut end = 0;
    loop {
        match events.next() {
            Ok(Some((begins, head))) => {
                assert!(begins >= end, "{begins} after {end}");
                end = begins;
                let body = events.body();
                let _ = gtid_of(&head, body);
                let _ = seen_before(head.kind, body);
                let _ = statement(body);
                let _ = next_file(events.event());
            }
            Ok(None) | Err(Failure::Damaged(_) | Failure::Torn) => return,
            Err(Failure::Io(error)) => panic!("memory cannot be read: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use refloat_testkit::corpus;

    use super::*;

    #[test]
    fn seeds_are_understood() {
        for (name, seed) in corpus::seeds("copies") {
            let bytes = &seed[1..];
            let is_understood = match seed[0] {
                0 => Answer::parse(bytes).is_ok(),
                1 => is_sound(bytes, name.contains("row-format")),
                2 => Frame::read(bytes).is_some(),
                _ => true,
            };
            assert!(is_understood, "{name}");
        }
        for (name, seed) in corpus::seeds("binlog") {
            let mut events = Events::of(&seed[..]).unwrap();
            let mut numbers = 0;
            while let Ok(Some((_, head))) = events.next() {
                numbers += u32::from(gtid_of(&head, events.body()).is_some());
            }
            assert!(numbers >= 3, "{name}: {numbers} transactions");
        }
    }

    #[test]
    fn nothing_like_the_seeds_makes_a_panic() {
        corpus::replay("copies", 8, copies);
        corpus::replay("binlog", 2, binlog);
    }
}
