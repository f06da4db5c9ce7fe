//! Repositories whose key is wrapped for recipients.

use std::sync::Arc;

use refloat_repository::{
    Access, Identity, Key, Recipient, Repository, RepositoryError, recipients,
};
use refloat_store::storage::LocalFolder;

use super::{Meanwhile, back_up, files, restored, storage};

/// Identities of age, made for these tests, and their recipients.
pub const AGE: [(&str, &str); 2] = [
    (
        "AGE-SECRET-KEY-1QK788SD46RGS9TNFYCQ9SUPDN95WM39PFEGZTAT6E9PZ9NYRWN7Q59RK7P",
        "age1g65rs5edwddd5ynccdweqhrm2tqcwf0u7zmlezf6dz0wvm7wfeesvcp87k",
    ),
    (
        "AGE-SECRET-KEY-150K0R3HU40X0H3NLFD6AE996RW0LTCYMGSPWK74UJVMFW8Y7P8ESPU4EZW",
        "age1xtvf60a0ekg6l4wqeua0ypf6mmfn75fr4sxhdvqzyf7msnwphdxsyxvmcm",
    ),
];

/// Two make a repository in one place, for the same recipient: one of them succeeds, and its key
/// stays.
#[test]
fn a_key_is_not_taken_away_by_who_begins_at_the_same_moment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let made = [AGE[0].1.parse::<Recipient>().unwrap()];
    let other = made.clone();
    let meanwhile = Meanwhile {
        folder: LocalFolder::new(&path),
        before: "keys/",
        happens: Box::new(move || {
            Repository::init_for(storage(&path), Some(Key::random()), &other).unwrap();
        }),
    };
    Repository::init_for(Arc::new(meanwhile), Some(Key::random()), &made).unwrap_err();
    let identity = Access::Identities(Identity::parse_file(AGE[0].0).unwrap());
    Repository::open(storage(folder.path()), &identity).unwrap();
}

#[test]
fn recipients_open_a_repository_and_never_lose_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = storage(folder.path());
    let [one, two] = AGE.map(|(_, recipient)| recipient.parse::<Recipient>().unwrap());
    let by = |which: &[usize]| {
        let file: Vec<&str> = which.iter().map(|at| AGE[*at].0).collect();
        Access::Identities(Identity::parse_file(&file.join("\n")).unwrap())
    };
    let open = |access: Access| Repository::open(storage(folder.path()), &access);
    let refused = |result: Result<(), RepositoryError>, words: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let remove =
        |access: Access, which: &Recipient| Repository::remove_recipient(&place, access, which);
    let there = || recipients(&*place).unwrap();

    let key = Key::random();
    let made = [one.clone()];
    let repository = Repository::init_for(Arc::clone(&place), Some(key.clone()), &made).unwrap();
    back_up(&repository, "b", &[], &files()).unwrap();
    assert_eq!(there(), [AGE[0].1]);
    // The wrong identity hears who may.
    refused(open(by(&[1])).map(drop), AGE[0].1);
    refused(open(Access::Plain).map(drop), "no key was given");
    let reopened = open(by(&[1, 0])).unwrap();
    assert_eq!(restored(&reopened, "b").unwrap(), files());

    // The last one stays, and so does the one that is shown.
    refused(remove(by(&[0]), &one), "nothing was given that opens");
    refused(remove(by(&[1, 0]), &one), "no identity that was given");
    reopened.add_recipient(&two).unwrap();
    reopened.add_recipient(&two).unwrap();
    assert_eq!(there().len(), 2);
    refused(remove(by(&[1]), &two), "nothing was given that opens");
    remove(by(&[1, 0]), &one).unwrap();
    refused(remove(by(&[1]), &one), "not wrapped for");
    refused(open(by(&[0])).map(drop), AGE[1].1);
    assert_eq!(restored(&open(by(&[1])).unwrap(), "b").unwrap(), files());

    // Another key in its place is not taken for that of the repository.
    let name = folder.path().join("keys").join(format!("{}.age", AGE[1].1));
    let whole = std::fs::read(&name).unwrap();
    std::fs::write(&name, "cut").unwrap();
    refused(open(by(&[1])).map(drop), "does not hold the key");
    let other = tempfile::tempdir().unwrap();
    Repository::init_for(
        storage(other.path()),
        Some(Key::random()),
        std::slice::from_ref(&two),
    )
    .unwrap();
    std::fs::copy(
        other.path().join("keys").join(name.file_name().unwrap()),
        &name,
    )
    .unwrap();
    refused(open(by(&[1])).map(drop), "does not hold the key");
    std::fs::write(&name, whole).unwrap();
    open(by(&[1])).unwrap();

    // Whoever has the key itself may remove all.
    remove(Access::Key(Key::random()), &two).unwrap_err();
    remove(Access::Key(key), &two).unwrap();
    assert!(there().is_empty());
    refused(open(by(&[1])).map(drop), "for no recipient");
}
