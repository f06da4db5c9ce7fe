SET NAMES utf8mb4;
CREATE TABLE p (id INT PRIMARY KEY, code VARCHAR(9), n INT, UNIQUE KEY code (code), KEY n (n));
INSERT INTO p VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4), (5, 'e', 5);
-- A child of a table whose rows, and keys, were on their way.
CREATE TABLE d (id INT PRIMARY KEY, code VARCHAR(9), CONSTRAINT of_code FOREIGN KEY (code) REFERENCES p (code));
INSERT IGNORE INTO d VALUES (1, 'a'), (2, 'b'), (3, 'e');
INSERT INTO p VALUES (6, 'f', 6), (7, 'g', 7);
-- Its foreign key comes when it has rows, and other rows are on their way.
CREATE TABLE e (id INT PRIMARY KEY, n INT, code VARCHAR(9));
INSERT IGNORE INTO e VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c');
ALTER TABLE e ADD CONSTRAINT of_p FOREIGN KEY (code) REFERENCES p (code);
INSERT INTO p VALUES (8, 'h', 8), (9, 'i', 9);
INSERT IGNORE INTO e VALUES (4, 4, 'h'), (5, 5, 'i');
INSERT INTO p VALUES (10, 'k', 10);
INSERT IGNORE INTO e VALUES (6, 6, 'k');
-- The same where nothing is checked, as dump tools have it.
SET FOREIGN_KEY_CHECKS = 0;
CREATE TABLE q (id INT PRIMARY KEY, code VARCHAR(9), UNIQUE KEY code (code));
INSERT INTO q VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e');
CREATE TABLE f (id INT PRIMARY KEY, code VARCHAR(9), CONSTRAINT of_q FOREIGN KEY (code) REFERENCES q (code));
INSERT INTO f VALUES (1, 'a'), (2, 'b'), (3, 'z');
SET FOREIGN_KEY_CHECKS = 1;
INSERT INTO q VALUES (6, 'f');
