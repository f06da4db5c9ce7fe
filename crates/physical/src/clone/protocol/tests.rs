use super::*;

/// A descriptor of this kind with these fields.
fn descriptor(kind: u32, fields: &[&[u8]]) -> Vec<u8> {
    let fields = fields.concat();
    let mut all = vec![2, INNODB, 0];
    for number in [DESCRIPTORS, fields.len() as u32 + 12, kind] {
        all.extend_from_slice(&number.to_be_bytes());
    }
    all.extend_from_slice(&fields);
    all
}

fn parsed(payload: &[u8]) -> Descriptor {
    match Answer::parse(payload) {
        Ok(Answer::Descriptor(descriptor)) => descriptor,
        other => panic!("{other:?}"),
    }
}

/// A stage: its number, a task, chunks, files, bytes, bytes on the disk, flags.
fn stage(number: u8, flags: u8) -> Vec<u8> {
    let numbers = [0, 0, 0, number, 0, 0, 0, 9, 0, 0, 0, 40, 0, 0, 0, 3];
    descriptor(3, &[&numbers, &77u64.to_be_bytes(), &[0; 8], &[0, flags]])
}

fn file(marks: u16, name: &[u8]) -> Vec<u8> {
    descriptor(
        4,
        &[
            &2u32.to_be_bytes(),
            &98_304u64.to_be_bytes(),
            &[0; 8],
            &0x4021u32.to_be_bytes(),
            &4096u32.to_be_bytes(),
            &marks.to_be_bytes(),
            &5u32.to_be_bytes(),
            &6u32.to_be_bytes(),
            &[0; 8],
            &(name.len() as u32).to_be_bytes(),
            name,
        ],
    )
}

#[test]
fn stages_begin_and_end() {
    let Descriptor::Stage(begins) = parsed(&stage(2, 1)) else {
        panic!()
    };
    assert_eq!(
        (begins.stage, begins.begins, begins.is_ping),
        (Stage::Files, true, false)
    );
    assert_eq!((begins.chunks, begins.files, begins.bytes), (40, 3, 77));
    let ends = stage(3, 0);
    let Descriptor::Stage(info) = parsed(&ends) else {
        panic!()
    };
    assert!(!info.begins && !info.is_ping);
    let mut expected = ends[3..].to_vec();
    *expected.last_mut().unwrap() = 2;
    assert_eq!(info.acknowledgement, expected);
    assert!(matches!(parsed(&stage(4, 2)), Descriptor::Stage(info) if info.is_ping));
    Answer::parse(&stage(6, 0)).unwrap_err();
}

#[test]
fn files_and_their_bytes() {
    let Descriptor::File(info) = parsed(&file(0b1000, b"./shop/a.ibd\0")) else {
        panic!()
    };
    assert_eq!((info.name.as_str(), info.size), ("./shop/a.ibd", 98_304));
    assert_eq!((info.space, info.index, info.flags), (5, 6, 0x4021));
    assert!(info.is_renamed && !info.is_removed && !info.is_encrypted);
    assert!(matches!(parsed(&file(0b100, b"")), Descriptor::File(info) if info.is_encrypted));
    let numbers = [3u32, 0, 4, 5, 6, 16384].map(u32::to_be_bytes).concat();
    let bytes = descriptor(
        5,
        &[&numbers, &32768u64.to_be_bytes(), &65536u64.to_be_bytes()],
    );
    let expected = DataInfo {
        stage: Stage::Pages,
        chunk: 4,
        block: 5,
        file: 6,
        length: 16384,
        begins: 32768,
        size: 65536,
    };
    assert_eq!(parsed(&bytes), Descriptor::Data(expected));
    // Every truncation is noticed, and no byte does harm.
    for whole in [stage(2, 1), file(0, b"a\0"), bytes] {
        for end in 0..whole.len() {
            Answer::parse(&whole[..end]).unwrap_err();
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut other = whole.clone();
                other[end] = byte;
                let _ = Answer::parse(&other);
            }
        }
    }
}

#[test]
fn answers_of_the_plugin() {
    assert_eq!(Answer::parse(&[3, 1, 2]), Ok(Answer::Data(&[1, 2])));
    assert_eq!(Answer::parse(&[99]), Ok(Answer::Complete));
    assert_eq!(Answer::parse(&[6, 1, 0, 0, 0, b'x']), Ok(Answer::Fact));
    let failed = Answer::Failed {
        code: 3634,
        message: "no".to_owned(),
    };
    assert_eq!(
        Answer::parse(&[100, 0x32, 0x0e, 0, 0, b'n', b'o', 0]),
        Ok(failed)
    );
    let mut setting = vec![8];
    for text in ["clone_donor_timeout_after_network_failure", "5"] {
        setting.extend_from_slice(&(text.len() as u32).to_le_bytes());
        setting.extend_from_slice(text.as_bytes());
    }
    assert_eq!(Answer::parse(&setting), Ok(Answer::Patience(5)));
    Answer::parse(&[7, 42]).unwrap();
    for wrong in [&[][..], &[0], &[98], &[100, 1]] {
        Answer::parse(wrong).unwrap_err();
    }
}

#[test]
fn locators_name_a_copy_and_how_far_it_is() {
    let none = no_copy();
    assert_eq!(none.len(), 34);
    assert_eq!(none[..12], [0, 0, 0, 100, 0, 0, 0, 34, 0, 0, 0, 1]);
    let body = opening(&none);
    assert_eq!(body[..4], [2, 1, 0, 0]);
    assert_eq!(body[4..8], [0x2c, 1, 0, 0x80]);
    assert_eq!(body[8..13], [12, 34, 0, 0, 0]);
    let mut answer = vec![1, 2, 1, 0, 0, 12, 34, 0, 0, 0];
    answer.extend_from_slice(&none);
    assert_eq!(Answer::parse(&answer), Ok(Answer::Locator(&none)));

    let mut progress = Progress::of(33);
    assert!(progress.begin(1) && progress.begin(32) && progress.begin(33));
    assert!(!progress.begin(0) && !progress.begin(65));
    progress.incomplete.insert(33, 7);
    let far = resumed(&none, Stage::Pages, true, &progress);
    assert_eq!(far[4..8], [0, 0, 0, 58]);
    assert_eq!(far[32..34], [3, 1]);
    let rest = [1u32, 33, 7, 2, 0x8000_0001, 1]
        .map(u32::to_be_bytes)
        .concat();
    assert_eq!(far[34..], rest);
    assert_eq!(resumed(&none, Stage::Init, false, &progress), none);

    let body = acknowledging(&none, 0, &[9, 9]);
    assert_eq!(body.len(), 4 + 5 + 34 + 4 + 2);
    assert_eq!(body[43..], [2, 0, 0, 0, 9, 9]);
}
