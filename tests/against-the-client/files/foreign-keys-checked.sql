-- A session that checks foreign keys, which no dump tool has: keys with the table, by ALTER, over two columns, to the table itself.
CREATE TABLE artist (id INT NOT NULL PRIMARY KEY, name VARCHAR(20), part INT, UNIQUE KEY two (name, part)) ENGINE=InnoDB;
CREATE TABLE album (id INT NOT NULL PRIMARY KEY, artist INT, FOREIGN KEY (artist) REFERENCES artist (id)) ENGINE=InnoDB;
CREATE TABLE track (id INT NOT NULL PRIMARY KEY, album INT, name VARCHAR(20), part INT) ENGINE=InnoDB;
ALTER TABLE track ADD CONSTRAINT of_album FOREIGN KEY (album) REFERENCES album (id) ON DELETE CASCADE;
CREATE INDEX of_album_too ON track (album);
ALTER TABLE track ADD CONSTRAINT of_both FOREIGN KEY (name, part) REFERENCES artist (name, part);
CREATE TABLE tree (id INT NOT NULL PRIMARY KEY, up INT, CONSTRAINT up FOREIGN KEY (up) REFERENCES tree (id)) ENGINE=InnoDB;
INSERT INTO artist VALUES (1,'a',1),(2,'b',2),(3,'c',3);
INSERT INTO album VALUES (1,1),(2,NULL);
INSERT INTO track VALUES (1,1,'a',1),(2,NULL,NULL,7),(3,2,'b',NULL);
INSERT INTO tree VALUES (1,NULL),(2,1),(3,3),(4,2);
INSERT INTO artist VALUES (4,'d',4);
INSERT INTO album VALUES (4,4),(5,1);
INSERT INTO track VALUES (4,4,'d',4),(5,5,'a',1);
-- What is there without a parent by then nobody looks for again.
SET foreign_key_checks = 0;
INSERT INTO album VALUES (6,77);
CREATE TABLE late (id INT NOT NULL PRIMARY KEY, artist INT, KEY (artist)) ENGINE=InnoDB;
INSERT INTO late VALUES (1,88),(2,1);
ALTER TABLE late ADD CONSTRAINT of_artist FOREIGN KEY (artist) REFERENCES artist (id);
SET foreign_key_checks = 1;
INSERT INTO album VALUES (7,1);
INSERT INTO late VALUES (3,2);
INSERT IGNORE INTO late VALUES (5,3);
-- Children go with their parents, as they would by the stock client.
DELETE FROM album WHERE id = 4;
INSERT INTO track VALUES (6,5,NULL,NULL);
SET foreign_key_checks = 0;
DELETE FROM artist WHERE id = 1;
DROP TABLE tree;
CREATE TABLE `back``tick` (`i``d` INT NOT NULL PRIMARY KEY, `u``p` INT, CONSTRAINT `u``p` FOREIGN KEY (`u``p`) REFERENCES `back``tick` (`i``d`)) ENGINE=InnoDB;
SET foreign_key_checks = 1;
INSERT INTO `back``tick` VALUES (1,NULL),(2,1);
INSERT INTO artist VALUES (5,'e',5);
-- Rows that came by other statements than plain ones.
SET foreign_key_checks = 0;
CREATE TABLE other (id INT NOT NULL PRIMARY KEY, artist INT, FOREIGN KEY (artist) REFERENCES artist (id)) ENGINE=InnoDB;
INSERT INTO other VALUES (1,99) ON DUPLICATE KEY UPDATE artist = artist;
CREATE TABLE orphan (id INT NOT NULL PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES nosuch (id)) ENGINE=InnoDB;
SET foreign_key_checks = 1;
INSERT INTO other VALUES (2,NULL);
INSERT INTO orphan VALUES (1,NULL);
-- Numbers of the server, in a child of a key that may be on its way.
CREATE TABLE numbered (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20), part INT, FOREIGN KEY (name, part) REFERENCES artist (name, part)) ENGINE=InnoDB;
INSERT INTO artist VALUES (6,'f',6);
INSERT INTO numbered (name, part) VALUES ('f',6),('e',5);
