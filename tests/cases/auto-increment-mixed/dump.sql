SET NAMES utf8mb4;
CREATE TABLE f (a VARCHAR(20), b INT, c INT AUTO_INCREMENT PRIMARY KEY);
INSERT INTO f VALUES ('zero', 1, 0), ('null', 1, NULL), ('fifty', 1, 50), ('next', 1, NULL);
