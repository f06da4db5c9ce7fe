SET NAMES utf8mb4;
CREATE TABLE p (id INT PRIMARY KEY, code VARCHAR(9), n INT, UNIQUE KEY code (code), KEY n (n));
CREATE TABLE c (id INT PRIMARY KEY, p INT, CONSTRAINT of_p FOREIGN KEY (p) REFERENCES p (id));
CREATE TABLE d (id INT PRIMARY KEY, code VARCHAR(9), CONSTRAINT of_code FOREIGN KEY (code) REFERENCES p (code));
-- Children that are not to be left out, for their parents stand in front of them.
INSERT INTO p VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4), (5, 'e', 5), (6, 'f', 6), (7, 'g', 7);
INSERT IGNORE INTO c VALUES (1, 1), (2, 2), (3, 7), (3, 3);
INSERT INTO p VALUES (8, 'h', 8), (9, 'i', 9);
INSERT IGNORE INTO d VALUES (1, 'a'), (2, 'h'), (3, 'i'), (1, 'b');
INSERT IGNORE INTO c VALUES (8, 8), (9, 9);
-- Plain rows of a child in front of those of another table.
INSERT INTO c VALUES (10, 1), (11, 2), (12, 3), (13, 4);
INSERT INTO p VALUES (20, 'k', 20);
INSERT IGNORE INTO c VALUES (20, 20), (10, 5);
REPLACE INTO d VALUES (2, 'k');
-- Checks off, as dump tools have it: orphans and all.
SET FOREIGN_KEY_CHECKS = 0;
INSERT IGNORE INTO c VALUES (30, 30), (31, 31);
INSERT INTO p VALUES (30, 'l', 30);
