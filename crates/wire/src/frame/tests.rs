use proptest::prelude::*;

use super::*;

fn written(prefix: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut framed = Framed::new(Vec::new(), usize::MAX);
    framed.write(prefix, payload).unwrap();
    framed.io
}

/// Returns at most `step` bytes per read, so that packets get split everywhere.
struct Dribble<'a> {
    data: &'a [u8],
    step: usize,
}

impl Read for Dribble<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.step.min(out.len()).min(self.data.len());
        out[..n].copy_from_slice(&self.data[..n]);
        self.data = &self.data[n..];
        Ok(n)
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

fn round_trip(prefix: usize, length: usize, step: usize) {
    let payload = pattern(length);
    let head = vec![7; prefix];
    let bytes = written(&head, &payload);
    let total = prefix + length;
    assert_eq!(
        bytes.len(),
        total + HEADER * (total / MAX_PAYLOAD + 1),
        "an empty packet ends a payload that fills its last one"
    );
    let mut framed = Framed::new(Dribble { data: &bytes, step }, usize::MAX);
    let place = framed.read().unwrap();
    let got = framed.payload(&place);
    assert_eq!(got.len(), total);
    assert!(got[..prefix] == head[..] && got[prefix..] == payload[..]);
    assert_eq!(framed.buffered(), 0);
}

#[test]
fn payloads_around_the_borders_come_back() {
    for length in [
        0,
        1,
        MAX_PAYLOAD - 2,
        MAX_PAYLOAD - 1,
        MAX_PAYLOAD,
        MAX_PAYLOAD + 1,
        2 * MAX_PAYLOAD - 1,
        2 * MAX_PAYLOAD,
    ] {
        round_trip(1, length, usize::MAX);
    }
    round_trip(0, MAX_PAYLOAD, 100_001);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn any_length_near_a_border_comes_back(packets in 0..3_usize, off in -5..6_i64, prefix in 0..8_usize, step in 1_000..5_000_000_usize) {
        let length = i64::try_from(packets * MAX_PAYLOAD).unwrap() + off;
        if length >= 0 {
            round_trip(prefix, length as usize, step);
        }
    }
}

proptest! {
    #[test]
    fn many_small_packets_come_back(lengths in prop::collection::vec(0..5_000_usize, 1..200), step in 1..100_000_usize) {
        let mut framed = Framed::new(Vec::new(), usize::MAX);
        for length in &lengths {
            framed.write(&[], &pattern(*length)).unwrap();
        }
        let bytes = framed.io;
        let mut framed = Framed::new(Dribble { data: &bytes, step }, usize::MAX);
        for length in lengths {
            let place = framed.read().unwrap();
            prop_assert_eq!(framed.payload(&place), &pattern(length)[..]);
        }
        prop_assert!(matches!(framed.read(), Err(FrameError::Io(e)) if e.kind() == io::ErrorKind::UnexpectedEof));
    }
}

#[test]
fn a_wrong_sequence_is_refused() {
    let mut bytes = written(&[], b"abc");
    bytes[3] = 9;
    let mut framed = Framed::new(&bytes[..], usize::MAX);
    assert!(matches!(
        framed.read(),
        Err(FrameError::Sequence {
            expected: 0,
            found: 9
        })
    ));
}

#[test]
fn a_payload_over_the_limit_is_refused_before_it_is_read() {
    let bytes = written(&[], &[0; 5000]);
    let mut framed = Framed::new(&bytes[..4], 4096);
    assert!(matches!(
        framed.read(),
        Err(FrameError::TooLong { limit: 4096 })
    ));
    let long = written(&[], &vec![0; MAX_PAYLOAD + 10]);
    let mut framed = Framed::new(&long[..], MAX_PAYLOAD + 9);
    assert!(matches!(framed.read(), Err(FrameError::TooLong { .. })));
}

#[test]
fn a_stream_that_ends_early_is_an_error() {
    let bytes = written(&[], &[0; 5000]);
    for cut in [0, 3, 4, 100, bytes.len() - 1] {
        let mut framed = Framed::new(&bytes[..cut], usize::MAX);
        assert!(
            matches!(framed.read(), Err(FrameError::Io(e)) if e.kind() == io::ErrorKind::UnexpectedEof),
            "cut at {cut}"
        );
    }
}
